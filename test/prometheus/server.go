package prometheus

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"time"
)

// Server is a running Prometheus.
type Server struct {
	Dir     string // directory for the configuration, rules and data
	address string
	process *exec.Cmd
}

// StartServer starts Prometheus with the configuration dir/prometheus.yml, and waits until it is ready. The log is
// dir/log.
func StartServer(ctx context.Context, binary, dir string, flags ...string) (*Server, error) {
	path := filepath.Join(dir, "log")
	log, err := os.Create(path)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	s := &Server{Dir: dir, process: exec.Command(binary, append([]string{
		"--config.file=" + filepath.Join(dir, "prometheus.yml"),
		"--storage.tsdb.path=" + filepath.Join(dir, "data"),
		"--web.listen-address=127.0.0.1:0",
	}, flags...)...)}
	s.process.Stdout, s.process.Stderr = log, log
	if err := s.process.Start(); err != nil {
		return nil, err
	}
	if s.address, err = listening(ctx, path, `msg="Listening on" address=(\S+)`); err != nil {
		return nil, errors.Join(err, s.End())
	}
	for ctx.Err() == nil {
		response, err := http.Get("http://" + s.address + "/-/ready")
		if err == nil {
			response.Body.Close()
			if response.StatusCode == http.StatusOK {
				return s, nil
			}
		}
		pause()
	}
	return nil, errors.Join(fmt.Errorf("prometheus is not ready: %w", ctx.Err()), s.End())
}

// End stops the server and waits until it has exited.
func (s *Server) End() error {
	return end(s.process, nil)
}

// Reload makes the server reread its configuration.
func (s *Server) Reload() error { return s.process.Process.Signal(syscall.SIGHUP) }

// Sample is an element of a query's result. It has either a Point or a Histogram.
type Sample struct {
	Labels    map[string]string `json:"metric"`
	Point     []any             `json:"value"`     // time, and value as text
	Histogram []any             `json:"histogram"` // time, buckets
}

// Value returns the sample's value as Prometheus formats it, or "" if it is a histogram.
func (s Sample) Value() string {
	if len(s.Point) != 2 {
		return ""
	}
	text, _ := s.Point[1].(string)
	return text
}

// Query evaluates an expression at the current time. It treats warnings as errors.
func (s *Server) Query(expr string) ([]Sample, error) {
	var answer struct {
		Type   string          `json:"resultType"`
		Result json.RawMessage `json:"result"`
	}
	if err := s.ask("/api/v1/query", url.Values{"query": {expr}}, &answer); err != nil {
		return nil, fmt.Errorf("%s: %w", expr, err)
	}
	if answer.Type != "vector" {
		return nil, fmt.Errorf("%s: result type: found %s, want vector", expr, answer.Type)
	}
	var samples []Sample
	return samples, json.Unmarshal(answer.Result, &samples)
}

// Labels returns the label names that each metric has had so far, keyed by the metric's name.
func (s *Server) Labels() (map[string]map[string]bool, error) {
	var all []map[string]string
	if err := s.ask("/api/v1/series", url.Values{"match[]": {`{__name__!=""}`}}, &all); err != nil {
		return nil, err
	}
	labels := make(map[string]map[string]bool)
	for _, series := range all {
		name := series["__name__"]
		if labels[name] == nil {
			labels[name] = make(map[string]bool)
		}
		for label := range series {
			labels[name][label] = true
		}
	}
	return labels, nil
}

// Alert is a pending or firing alert.
type Alert struct {
	Labels      map[string]string
	Annotations map[string]string
	State       string // pending or firing
}

// Alerts returns the alerts that are pending or firing.
func (s *Server) Alerts() ([]Alert, error) {
	var answer struct{ Alerts []Alert }
	return answer.Alerts, s.ask("/api/v1/alerts", nil, &answer)
}

// Rule is an alert rule and the result of its last evaluation.
type Rule struct{ Name, Health, LastError string }

// Rules returns all alert rules.
func (s *Server) Rules() ([]Rule, error) {
	var answer struct{ Groups []struct{ Rules []Rule } }
	if err := s.ask("/api/v1/rules", nil, &answer); err != nil {
		return nil, err
	}
	var rules []Rule
	for _, g := range answer.Groups {
		rules = append(rules, g.Rules...)
	}
	return rules, nil
}

func (s *Server) ask(path string, form url.Values, answer any) error {
	response, err := http.Get("http://" + s.address + path + "?" + form.Encode())
	if err != nil {
		return err
	}
	defer response.Body.Close()
	envelope := struct {
		Status, Error string
		Warnings      []string
		Data          any
	}{Data: answer}
	if err := json.NewDecoder(response.Body).Decode(&envelope); err != nil {
		return fmt.Errorf("%s: %s: %w", path, response.Status, err)
	}
	if envelope.Status != "success" || len(envelope.Warnings) > 0 {
		return fmt.Errorf("%s: %s %s", path, envelope.Error, strings.Join(envelope.Warnings, ", "))
	}
	return nil
}

// listening waits until the log contains a line that matches the pattern, and returns the pattern's first group, which
// is the address that the process is listening on.
func listening(ctx context.Context, log, pattern string) (string, error) {
	expression := regexp.MustCompile(pattern)
	for ctx.Err() == nil {
		file, err := os.Open(log)
		if err != nil {
			return "", err
		}
		for lines := bufio.NewScanner(file); lines.Scan(); {
			if found := expression.FindStringSubmatch(lines.Text()); found != nil {
				file.Close()
				return found[1], nil
			}
		}
		file.Close()
		pause()
	}
	return "", fmt.Errorf("%s: found no line that matches %s: %w", log, pattern, ctx.Err())
}

// pause waits between two polls of another process.
func pause() { time.Sleep(20 * time.Millisecond) }

// end sends SIGTERM to a process, and kills it if it hasn't exited after five seconds.
func end(process *exec.Cmd, log *os.File) error {
	if err := process.Process.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	late := time.AfterFunc(5*time.Second, func() { _ = process.Process.Kill() })
	err := process.Wait()
	if !late.Stop() && err != nil {
		err = fmt.Errorf("%s still runs 5 s after SIGTERM: %w", process.Path, err)
	}
	if log != nil {
		err = errors.Join(err, log.Close())
	}
	return err
}
