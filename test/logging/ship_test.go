package logging_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var (
	collector = flag.String("collector", "", "path of the binary built from ./collector")
	binary    = flag.String("daemon", "", "path of the daemon's binary, for its command logs")
)

const (
	config   = "../../deploy/logging/otel-collector.yaml"
	recorded = "../../internal/timeline/testdata/hotplug.log"
	limit    = 30 * time.Second // for each wait for records
)

// record is a received log record.
type record struct {
	Body, Time, Severity string
	Event, Device        string
	Pod                  string
}

// backend is an OTLP server that keeps the records it receives.
type backend struct {
	mu      sync.Mutex
	records []record
	err     error
	more    chan struct{} // holds a value if there may be more records
}

type value struct{ StringValue string }

type keyValue struct {
	Key   string
	Value value
}

func find(all []keyValue, key string) string {
	for _, kv := range all {
		if kv.Key == key {
			return kv.Value.StringValue
		}
	}
	return ""
}

func (b *backend) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var request struct {
		ResourceLogs []struct {
			Resource  struct{ Attributes []keyValue }
			ScopeLogs []struct {
				LogRecords []struct {
					TimeUnixNano, SeverityText string
					Body                       value
					Attributes                 []keyValue
				}
			}
		}
	}
	err := json.NewDecoder(r.Body).Decode(&request)
	b.mu.Lock()
	defer b.mu.Unlock()
	if err != nil || r.URL.Path != "/v1/logs" {
		b.err = fmt.Errorf("%s: %w", r.URL.Path, err)
	}
	for _, resource := range request.ResourceLogs {
		for _, scope := range resource.ScopeLogs {
			for _, l := range scope.LogRecords {
				nano, _ := strconv.ParseInt(l.TimeUnixNano, 10, 64)
				b.records = append(b.records, record{
					Body: l.Body.StringValue, Time: time.Unix(0, nano).UTC().Format(time.RFC3339Nano), Severity: l.SeverityText,
					Event: find(l.Attributes, "event"), Device: find(l.Attributes, "device"),
					Pod: find(resource.Resource.Attributes, "k8s.namespace.name") + "/" + find(resource.Resource.Attributes, "k8s.pod.name"),
				})
			}
		}
	}
	select {
	case b.more <- struct{}{}:
	default:
	}
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprint(w, "{}")
}

// await waits until at least n records have been received, and returns all records.
func (b *backend) await(t *testing.T, n int) []record {
	t.Helper()
	timeout := time.After(limit)
	for {
		b.mu.Lock()
		records, err := b.records, b.err
		b.mu.Unlock()
		if err != nil {
			t.Fatal(err)
		}
		if len(records) >= n {
			return records
		}
		select {
		case <-b.more:
		case <-timeout:
			t.Fatalf("records after %v: found %d, want %d", limit, len(records), n)
		}
	}
}

// start starts the collector with the example's configuration, except for the paths and the endpoint. end terminates
// the collector, which first sends all the lines it has read.
func start(t *testing.T, dir, endpoint string) (end func()) {
	t.Helper()
	ours := filepath.Join(dir, "ours.yaml")
	write(t, ours, fmt.Sprintf(`
extensions: {file_storage: {directory: %s/storage}}
receivers:
  filelog/accelerator-device-plugin:
    include: ["%[1]s/var/log/pods/kube-system_*/accelerator-device-plugin/*.log"]
exporters: {otlphttp: {endpoint: %s, encoding: json, compression: none}}
service: {telemetry: {metrics: {level: none}}}
`, dir, endpoint))
	cmd := exec.Command(*collector, "--config", config, "--config", ours)
	var output strings.Builder
	cmd.Stdout, cmd.Stderr = &output, &output
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return sync.OnceFunc(func() {
		if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Error(err)
		}
		if err := cmd.Wait(); err != nil {
			t.Error(err)
		}
		if t.Failed() {
			t.Logf("output of the collector:\n%s", output.String())
		}
	})
}

// cri returns a line in containerd's format, split into parts of up to 200 bytes.
func cri(line string) (text string) {
	const at, most = "2026-11-22T08:00:00.123456789Z stderr ", 200
	for len(line) > most {
		text += at + "P " + line[:most] + "\n"
		line = line[most:]
	}
	return text + at + "F " + line + "\n"
}

// Each line of the daemon's log arrives as a record, with the line as its body and the fields as attributes. Lines are
// neither lost nor repeated when the collector restarts or the file is rotated.
func TestShip(t *testing.T) {
	text, err := os.ReadFile(recorded)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
	lines = append(lines, "goroutine 1 [running]:")
	var want []record
	var formatted []string
	for _, line := range lines {
		r := record{Body: line, Pod: "kube-system/fpga-accelerator-device-plugin-x7k2p", Time: "2026-11-22T08:00:00.123456789Z"}
		var fields struct{ Time, Level, Event, Device string }
		if json.Unmarshal([]byte(line), &fields) == nil {
			at, err := time.Parse(time.RFC3339Nano, fields.Time)
			if err != nil {
				t.Fatal(err)
			}
			r.Time, r.Severity, r.Event, r.Device = at.UTC().Format(time.RFC3339Nano), fields.Level, fields.Event, fields.Device
		}
		want, formatted = append(want, r), append(formatted, cri(line))
	}
	b := &backend{more: make(chan struct{}, 1)}
	server := httptest.NewServer(b)
	defer server.Close()
	dir := t.TempDir()
	pod := filepath.Join(dir, "var/log/pods/kube-system_fpga-accelerator-device-plugin-x7k2p_0b3dd42f-6f0a-4a5e-8c0e-0f3d9b1f2a11/accelerator-device-plugin")
	third := len(lines) / 3
	write(t, pod+"/0.log", strings.Join(formatted[:third], ""))
	end := start(t, dir, server.URL)
	defer func() { end() }()
	b.await(t, third)
	end()
	add(t, pod+"/0.log", strings.Join(formatted[third:2*third], ""))
	end = start(t, dir, server.URL)
	b.await(t, 2*third)
	if err := os.Rename(pod+"/0.log", pod+"/0.log.20261122-080000"); err != nil { // as the kubelet does
		t.Fatal(err)
	}
	write(t, pod+"/0.log", strings.Join(formatted[2*third:], ""))
	b.await(t, len(lines))
	end()
	got := b.await(t, len(lines))
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("records (-want +got):\n%s", diff)
	}
	shipped := ""
	for _, r := range got {
		shipped += r.Body + "\n"
	}
	if diff := cmp.Diff(printed(t, strings.Join(lines, "\n")+"\n"), printed(t, shipped)); diff != "" {
		t.Errorf("logs (-of the log +of the records):\n%s", diff)
	}
}

// printed runs the logs command on a log and returns its output.
func printed(t *testing.T, log string) string {
	t.Helper()
	cmd := exec.Command(*binary, "logs")
	cmd.Stdin = strings.NewReader(log)
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "daemon started") {
		t.Errorf("command logs: got %v, output %s; want a timeline", err, out)
	}
	return string(out)
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func add(t *testing.T, path, text string) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteString(text); err != nil {
		t.Fatal(err)
	}
}
