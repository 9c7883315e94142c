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
	Dir     string // of its settings, its rules and its data
	address string
	process *exec.Cmd
}

// StartServer starts Prometheus with the prometheus.yml that is in dir, and waits
// until it answers. What it says is in dir/log.
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

// End ends it, and waits until it has.
func (s *Server) End() error {
	return end(s.process, nil)
}

// Reload has it read its settings again.
func (s *Server) Reload() error { return s.process.Process.Signal(syscall.SIGHUP) }

// Sample is one element of an answer. Value is the text of a float, or empty where
// Histogram is there.
type Sample struct {
	Labels    map[string]string `json:"metric"`
	Point     []any             `json:"value"`     // time, text
	Histogram []any             `json:"histogram"` // time, buckets
}

// Value is the sample's float as Prometheus writes it.
func (s Sample) Value() string {
	if len(s.Point) != 2 {
		return ""
	}
	text, _ := s.Point[1].(string)
	return text
}

// Query asks for the value of an expression now. A warning is an error.
func (s *Server) Query(expr string) ([]Sample, error) {
	var answer struct {
		Type   string          `json:"resultType"`
		Result json.RawMessage `json:"result"`
	}
	if err := s.ask("/api/v1/query", url.Values{"query": {expr}}, &answer); err != nil {
		return nil, fmt.Errorf("%s: %w", expr, err)
	}
	if answer.Type != "vector" {
		return nil, fmt.Errorf("%s: a %s, want a vector", expr, answer.Type)
	}
	var samples []Sample
	return samples, json.Unmarshal(answer.Result, &samples)
}

// Labels returns which names of labels each metric has had so far, by its name.
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

// Alert is one that is pending or firing.
type Alert struct {
	Labels      map[string]string
	Annotations map[string]string
	State       string // pending, firing
}

// Alerts returns those that are not inactive.
func (s *Server) Alerts() ([]Alert, error) {
	var answer struct{ Alerts []Alert }
	return answer.Alerts, s.ask("/api/v1/alerts", nil, &answer)
}

// Rule is an alert rule, and how its last evaluation went.
type Rule struct{ Name, Health, LastError string }

// Rules returns all of them.
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

// listening waits until a log says on which address its process listens.
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
	return "", fmt.Errorf("%s does not say where it listens: %w", log, ctx.Err())
}

// pause is the time between two looks at another process.
func pause() { time.Sleep(20 * time.Millisecond) }

// end ends a process in good order, or kills it after five seconds.
func end(process *exec.Cmd, log *os.File) error {
	if err := process.Process.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	late := time.AfterFunc(5*time.Second, func() { _ = process.Process.Kill() })
	err := process.Wait()
	if !late.Stop() && err != nil {
		err = fmt.Errorf("%s did not end within 5 s: %w", process.Path, err)
	}
	if log != nil {
		err = errors.Join(err, log.Close())
	}
	return err
}
