package deviceplugin_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"b-com.com/accelerator-device-plugin/cmd/internal/deviceplugin"
	"b-com.com/accelerator-device-plugin/daemon/config"
	"b-com.com/accelerator-device-plugin/daemon/control"
	"b-com.com/accelerator-device-plugin/daemon/view"
	"b-com.com/accelerator-device-plugin/test/cmdtest"
	"b-com.com/accelerator-device-plugin/test/compare"
	"b-com.com/accelerator-device-plugin/test/must"
	"b-com.com/accelerator-device-plugin/test/patient"
)

// watchCommand is a running `watch -o json`, with the devices according to its lines.
type watchCommand struct {
	*exec.Cmd
	ended chan struct{} // closed when its output has ended

	mu   sync.Mutex
	rows map[string]view.Row
	bad  error
}

func startWatch(t *testing.T, socket string) *watchCommand {
	t.Helper()
	w := &watchCommand{Cmd: cmdtest.Command(t, "watch", "--socket", socket, "-o", "json"), rows: map[string]view.Row{}, ended: make(chan struct{})}
	pipe := must.Value(w.StdoutPipe())(t)
	must.Succeed(t, w.Start())
	go func() {
		defer close(w.ended)
		for lines := bufio.NewScanner(pipe); lines.Scan(); {
			w.take(lines.Bytes())
		}
	}()
	return w
}

// take applies one line, which must be consistent with the earlier ones.
func (w *watchCommand) take(line []byte) {
	var c view.Change
	err := json.Unmarshal(line, &c)
	w.mu.Lock()
	defer w.mu.Unlock()
	_, known := w.rows[c.ID]
	switch {
	case err != nil:
		w.bad = err
	case known != (c.What != "added"):
		w.bad = fmt.Errorf("%s is %s, known before: %t", c.ID, c.What, known)
	case c.What == "removed":
		delete(w.rows, c.ID)
	default:
		w.rows[c.ID] = c.Row
	}
}

// await waits until the lines add up to the daemon's devices. That can take a second, because the daemon reuses the
// kubelet's answer for that long.
func (w *watchCommand) await(d *testDaemon, when string) {
	d.t.Helper()
	patient.Await(d.t, when, func() error {
		want := d.asked(when)
		w.mu.Lock()
		got, bad := slices.SortedFunc(maps.Values(w.rows), func(a, b view.Row) int { return strings.Compare(a.ID, b.ID) }), w.bad
		w.mu.Unlock()
		diff := cmp.Diff(want, got, cmpopts.EquateEmpty(), cmpopts.IgnoreFields(view.Row{}, "Sensors")) // watch doesn't send those that are read later
		if diff != "" && bad == nil {
			bad = fmt.Errorf("devices (-daemon +watch):\n%s", diff)
		}
		return bad
	})
}

// asked returns the devices that the daemon reports to `devices`.
func (d *testDaemon) asked(when string) []view.Row {
	d.t.Helper()
	state, err := control.Dial(d.cfg.Socket).State(d.t.Context())
	if err != nil {
		d.t.Fatalf("%s: %v", when, err)
	}
	return state.Devices
}

// The local socket and `watch` agree with each other and with the kubelet's list, even if a scan, which doesn't know
// what happened before, shows something else.
func TestDevicesAndWatchAgree(t *testing.T) {
	bad := func(d *testDaemon) { d.do(d.node.Set(cardA.Address, 1, "errors/errors", "0x4000000000000")) }
	good := func(d *testDaemon) { d.do(d.node.Set(cardA.Address, 1, "errors/errors", "0x0")) }
	well, ill := health{"3b:00.0": true, "3b:00.0-p1": true}, health{"3b:00.0": true, "3b:00.0-p1": false}
	type step struct {
		name   string
		do     func(*testDaemon)
		want   health
		reason string // port 1's reason
	}
	for _, test := range []struct {
		name   string
		adjust func(*config.Config)
		steps  []step
		scan   string // what a scan reports for port 1 at the end
	}{
		{"hold", func(c *config.Config) { c.RecoveryHold = time.Hour }, []step{
			{"plugged", func(d *testDaemon) { d.plug(cardA) }, well, ""},
			{"breaks", bad, ill, "port-ap6"},
			{"heals", func(d *testDaemon) { good(d); d.awaitLine("device.health", "recovering=port-ap6") }, ill, "recovering=port-ap6"},
		}, "healthy []"},
		{"quarantine", func(c *config.Config) { c.FlapLimit = 2 }, []step{
			{"plugged", func(d *testDaemon) { d.plug(cardA) }, well, ""},
			{"breaks", bad, ill, "port-ap6"},
			{"heals", good, well, ""},
			{"breaks again", bad, ill, ""},
			{"heals again", func(d *testDaemon) { good(d); d.awaitLine("device.health", "flapping", "3b:00.0-p1") }, ill, ""},
		}, "healthy []"},
		{"replaced in use", nil, []step{
			{"plugged", func(d *testDaemon) { d.plug(cardA) }, well, ""},
			{"held", func(d *testDaemon) { d.hold("job", testResource, "3b:00.0-p1") }, well, ""},
			{"pulled", func(d *testDaemon) { d.do(d.node.Unplug(cardA.Address)) }, health{"3b:00.0-p1": false}, "removed-in-use"},
			{"replaced", func(d *testDaemon) {
				other := cardA
				other.AFUID = cardB.AFUID
				d.plug(other)
			}, ill, "replaced-in-use"},
			{"freed", func(d *testDaemon) { d.pods.Release("default", "job") }, well, ""},
		}, "healthy []"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			d := startDaemon(t, test.adjust)
			d.awaitLine("control.served")
			w := startWatch(t, d.cfg.Socket)
			for _, s := range test.steps {
				s.do(d)
				d.await(s.name, s.want)
				var rows []view.Row
				patient.Await(t, s.name, func() error {
					if rows = d.asked(s.name); s.reason != "" && !slices.Contains(rows[len(rows)-1].Reasons, s.reason) {
						return fmt.Errorf("port 1 has the reasons %v, want %s", rows[len(rows)-1].Reasons, s.reason)
					}
					return nil
				})
				got := health{}
				for _, r := range rows {
					got[r.ID] = r.Health != "unhealthy"
				}
				compare.Values(t, s.name+": health (-kubelet +devices)", s.want, got)
				w.await(d, s.name)
			}
			scanned, err := deviceplugin.Scan(t.Context(), d.cfg, true)
			if rows := scanned.Devices; err != nil || len(rows) != 2 || fmt.Sprint(rows[1].Health, " ", rows[1].Reasons) != test.scan {
				t.Errorf("scan: %v, want port 1 %s\n%+v", err, test.scan, rows)
			}
		})
	}
}

// A device counts as held as soon as it is allocated. If only the holder changes, watch prints that too.
func TestHeldAsSoonAsGiven(t *testing.T) {
	t.Parallel()
	d := startDaemon(t, nil)
	d.plug(cardB)
	d.await("plugged", health{"5e:00.0": true})
	d.awaitLine("control.served")
	w := startWatch(t, d.cfg.Socket)
	one := func(when string, held bool, holders ...string) {
		t.Helper()
		patient.Await(t, when, func() error {
			if rows := d.asked(when); len(rows) != 1 || rows[0].Held == nil || *rows[0].Held != held || !slices.Equal(rows[0].Holder, holders) {
				return fmt.Errorf("%+v, want held %t by %v", rows, held, holders)
			}
			return nil
		})
		w.await(d, when)
	}
	one("plugged", false)
	must.Value(d.kubelet.Allocate(t.Context(), testResource, "5e:00.0"))(t)
	if rows := d.asked("given out"); len(rows) != 1 || rows[0].Held == nil || !*rows[0].Held {
		t.Errorf("given out: %+v, want it held at once", rows)
	}
	table, _, _ := cmdtest.Output(t, "devices", "--socket", d.cfg.Socket)
	compare.Contains(t, "given out", "not named yet", table)
	d.pods.Hold("default", "job", "main", testResource, "5e:00.0")
	one("named", true, "default/job/main")
	d.pods.Release("default", "job")
	one("ended", false)
	d.pods.Stop()
	patient.Await(t, "without pod-resources API", func() error {
		stdout, stderr, code := cmdtest.Output(t, "devices", "--socket", d.cfg.Socket)
		if !strings.Contains(stdout, " ?  ") || !strings.Contains(stderr, "the holders of devices are not known: ") || code != 0 {
			return fmt.Errorf("exit code %d, stderr %q, want ? and the reason\n%s", code, stderr, stdout)
		}
		return nil
	})
}

// The headline shows the daemon's version and mode. For JSON and YAML it goes to stderr, and with -o state it is
// omitted.
func TestHeadline(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "config.yaml")
	must.Succeed(t, os.WriteFile(file, []byte("resources: [{name: example.com/lab, match: {pciAddress: \"3b:00.0\"}}]\n"), 0o600))
	r, node, _ := cmdtest.Serve(t, "--mode", "af", "--config", file, "--pod-resources-socket", "/nonexistent")
	socket := r.Await("control.served")["socket"].(string)
	must.Succeed(t, node.Plug(cardB))
	r.Await("stream.opened")
	headline := regexp.MustCompile(`^daemon \S+ since \d{4}-\d\d-\d\d \d\d:\d\d:\d\d, mode af(, settings [0-9a-f]{12})?\n`)
	for format, onStderr := range map[string]bool{"": false, "wide": false, "json": true, "yaml": true} {
		stdout, stderr, code := cmdtest.Output(t, "devices", "--socket", socket, "-o", format)
		if code != 0 || headline.MatchString(stderr) != onStderr || headline.MatchString(stdout) == onStderr {
			t.Errorf("-o %q: exit code %d, headline on stderr %t, want %t\n%s%s", format, code, !onStderr, onStderr, stdout, stderr)
		}
		if want := regexp.MustCompile(`(?m)^ID +HEALTH +HOLDER +REASONS +NODES +RESOURCE$`); want.MatchString(stdout) != (format == "") {
			t.Errorf("-o %q: columns %s: %t, want %t\n%s", format, want, !(format == ""), format == "", stdout)
		}
		if idle := "no device is offered by rule 1 of resources: example.com/lab for "; strings.Contains(stderr, idle) != (format == "wide") {
			t.Errorf("-o %q: stderr %q, want %q with -o wide alone", format, stderr, idle)
		}
	}
	patient.Await(t, "-o state", func() error { // the verdict may still change
		want := must.Value(control.Dial(socket).State(t.Context()))(t)
		var got control.State
		stdout, stderr, code := cmdtest.Output(t, "devices", "--socket", socket, "-o", "state")
		if err := json.Unmarshal([]byte(stdout), &got); err != nil || code != 0 || stderr != "" {
			return fmt.Errorf("%w, exit code %d, stderr %q\n%s", err, code, stderr, stdout)
		}
		if diff := cmp.Diff(want, got); diff != "" || len(got.Devices) != 1 || len(got.Cards) != 1 {
			return fmt.Errorf("want one device and one card, as the daemon answers (-daemon +devices):\n%s", diff)
		}
		return nil
	})
}

// Even if the settings file is invalid, the commands still ask the daemon. A valid file can contain the socket's path.
func TestAskWithABadFile(t *testing.T) {
	t.Parallel()
	d := startDaemon(t, nil)
	d.awaitLine("control.served")
	d.plug(cardB)
	d.await("plugged", health{"5e:00.0": true})
	file := filepath.Join(t.TempDir(), "config.yaml")
	for _, test := range []struct {
		name, text, note string
		args             []string
		code             int
	}{
		{"bad file", "mode: zen\n", "settings on disk are not valid, and not used by this command: ", []string{"--socket", d.cfg.Socket}, 0},
		{"socket of the file", "socket: " + d.cfg.Socket + "\n", "", nil, 0},
		{"flag over file", "socket: /nonexistent\n", "", []string{"--socket", d.cfg.Socket}, 0},
		{"socket of a bad file", "mode: zen\nsocket: " + d.cfg.Socket + "\n", "socket: found none", nil, 2}, // the variable is empty
	} {
		d.do(os.WriteFile(file, []byte(test.text), 0o600))
		cmd := cmdtest.Command(t, append([]string{"devices", "--config", file}, test.args...)...)
		if test.name == "socket of the file" {
			cmd.Env = cmd.Env[:1]
		}
		var stdout, stderr bytes.Buffer
		cmd.Stdout, cmd.Stderr = &stdout, &stderr
		_ = cmd.Run()
		if code := cmd.ProcessState.ExitCode(); code != test.code || (code == 0) != strings.Contains(stdout.String(), "5e:00.0  healthy") ||
			!strings.Contains(stderr.String(), test.note) || (test.note == "") != (stderr.Len() == 0) {
			t.Errorf("%s: exit code %d, stderr %q, want %d, %q\n%s", test.name, code, stderr.String(), test.code, test.note, stdout.String())
		}
	}
	d.do(os.WriteFile(file, []byte("mode: zen\n"), 0o600))
	w := cmdtest.Command(t, "watch", "--socket", d.cfg.Socket, "--config", file)
	pipe := must.Value(w.StdoutPipe())(t)
	d.do(w.Start())
	lines := bufio.NewScanner(pipe)
	if !lines.Scan() || !strings.HasPrefix(lines.Text(), "daemon ") || !lines.Scan() || !strings.Contains(lines.Text(), "added    5e:00.0") {
		t.Errorf("watch with a bad file: %q, want the headline and the device", lines.Text())
	}
	d.do(w.Process.Signal(syscall.SIGINT))
	compare.NoError(t, "watch after an interrupt", w.Wait())
}
