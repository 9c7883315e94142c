package cmdtest

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"b-com.com/accelerator-device-plugin/sim/simkubelet"
	"b-com.com/accelerator-device-plugin/sim/simnode"
	"b-com.com/accelerator-device-plugin/test/eventtest"
	"b-com.com/accelerator-device-plugin/test/must"
	"b-com.com/accelerator-device-plugin/test/patient"
)

// Running is the program, running as a daemon.
type Running struct {
	*exec.Cmd
	T     *testing.T
	lines chan map[string]any // lines of the daemon's log; closed at the end of the log
	Early []map[string]any    // lines read while waiting for others
	bad   []string            // errors about output that isn't a valid log line
}

// Serve starts the daemon on a simulated node with a kubelet stand-in.
func Serve(t *testing.T, more ...string) (*Running, *simnode.Node, *simkubelet.Kubelet) {
	t.Helper()
	dir := ShortDir(t)
	node := must.Value(simnode.New(dir))(t)
	kubelet := must.Value(simkubelet.Start(t.Context(), filepath.Join(dir, "kubelet"), simkubelet.Behaviour{}))(t)
	t.Cleanup(kubelet.Stop)
	args := append([]string{
		"-log-level", "debug", "--sysfs-root", node.Sys, "--dev-root=" + node.Dev,
		"--kubelet-dir", filepath.Join(dir, "kubelet"), "--http-address", "127.0.0.1:0", "--socket", filepath.Join(dir, "daemon.sock"),
		"--state-dir", filepath.Join(dir, "state"), "--pod-resources-socket", filepath.Join(dir, "pods.sock"),
	}, more...)
	r := &Running{Cmd: Command(t, args...), T: t, lines: make(chan map[string]any, 10_000)}
	read, write := io.Pipe()
	r.Stdout, r.Stderr = write, write // check both, because neither may contain anything but log lines
	must.Succeed(t, r.Start())
	go func() {
		defer close(r.lines)
		scanner := bufio.NewScanner(read)
		for scanner.Scan() {
			var line map[string]any
			if err := errors.Join(eventtest.Line(scanner.Bytes()), json.Unmarshal(scanner.Bytes(), &line)); err != nil {
				r.bad = append(r.bad, err.Error())
				continue
			}
			r.lines <- line
		}
	}()
	t.Cleanup(func() { r.end(write) })
	return r, node, kubelet
}

func (r *Running) end(log io.Closer) {
	r.Process.Kill()
	r.Wait() // always an error, because the program was killed
	log.Close()
	for range r.lines {
	}
	if len(r.bad) > 0 {
		r.T.Errorf("lines that are not as declared:\n%s", strings.Join(r.bad, "\n"))
	}
}

// Await returns the next log line with the given event, waiting for it if necessary.
func (r *Running) Await(event string) map[string]any {
	r.T.Helper()
	for i, line := range r.Early {
		if line["event"] == event {
			r.Early = append(r.Early[:i], r.Early[i+1:]...)
			return line
		}
	}
	deadline := time.NewTimer(patient.Limit)
	defer deadline.Stop()
	for {
		select {
		case line, ok := <-r.lines:
			if !ok {
				r.T.Fatalf("log ended without %s", event)
			}
			if line["event"] == event {
				return line
			}
			r.Early = append(r.Early, line)
		case <-deadline.C:
			r.T.Fatalf("no %s within %s", event, patient.Limit)
		}
	}
}

// Get sends an HTTP GET request, and returns the response.
func Get(t *testing.T, url string) (body string, code int) {
	t.Helper()
	answer := must.Value(http.Get(url))(t)
	defer answer.Body.Close()
	text := must.Value(io.ReadAll(answer.Body))(t)
	return string(text), answer.StatusCode
}
