package deviceplugin_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"b-com.com/accelerator-device-plugin/cmd/internal/deviceplugin"
	"b-com.com/accelerator-device-plugin/daemon"
	"b-com.com/accelerator-device-plugin/daemon/config"
	"b-com.com/accelerator-device-plugin/internal/logevent"
	"b-com.com/accelerator-device-plugin/internal/metrics"
	"b-com.com/accelerator-device-plugin/inventory"
	"b-com.com/accelerator-device-plugin/offer"
	"b-com.com/accelerator-device-plugin/server"
	"b-com.com/accelerator-device-plugin/sim/simkubelet"
	"b-com.com/accelerator-device-plugin/sim/simnode"
	"b-com.com/accelerator-device-plugin/test/cmdtest"
	"b-com.com/accelerator-device-plugin/test/compare"
	"b-com.com/accelerator-device-plugin/test/eventtest"
	"b-com.com/accelerator-device-plugin/test/must"
	"b-com.com/accelerator-device-plugin/test/patient"
)

// stalled is a daemon whose stderr is no longer read after the start.
type stalled struct {
	*exec.Cmd
	t       *testing.T
	node    *simnode.Node
	kubelet *simkubelet.Kubelet
	log     *bufio.Reader
	address string   // of HTTP
	bad     [16]bool // the ports with an error; the last one never has one
}

func pathCard(i int) string { return fmt.Sprintf("0000:%02x:00.0", i) }

// stall starts the daemon on a node of 16 cards, and reads its log until all have been
// listed.
func stall(t *testing.T) *stalled {
	t.Helper()
	dir := cmdtest.ShortDir(t)
	d := &stalled{t: t, node: must.Value(simnode.New(dir))(t)}
	for i := range d.bad {
		d.do(d.node.Plug(simnode.Card{Address: pathCard(i), Ports: 1, AFUID: cardA.AFUID, InterfaceID: cardA.InterfaceID}))
	}
	d.kubelet = must.Value(simkubelet.Start(t.Context(), filepath.Join(dir, "kubelet"), simkubelet.Behaviour{}))(t)
	t.Cleanup(d.kubelet.Stop)
	d.Cmd = cmdtest.Command(t, "--sysfs-root", d.node.Sys, "--dev-root", d.node.Dev, "--kubelet-dir", filepath.Join(dir, "kubelet"),
		"--http-address", "127.0.0.1:0", "--recovery-hold", "0s", "--flap-limit", "0")
	read, write, err := os.Pipe()
	d.do(err)
	d.log = bufio.NewReader(read)
	d.Stderr = write
	d.do(d.Start())
	t.Cleanup(func() { d.Process.Kill(); d.Wait(); read.Close() })
	write.Close()
	for event := ""; event != "list.sent" || d.address == ""; {
		text := must.Value(d.log.ReadBytes('\n'))(t)
		var line struct{ Event, Address string }
		d.do(errors.Join(eventtest.Line(text), json.Unmarshal(text, &line)))
		if event = line.Event; event == "http.served" {
			d.address = "http://" + line.Address
		}
	}
	return d
}

func (d *stalled) do(err error) {
	d.t.Helper()
	must.Succeed(d.t, err)
}

// turn breaks or heals these ports, and blocks until the kubelet has the list.
func (d *stalled) turn(ports ...int) {
	d.t.Helper()
	for _, i := range ports {
		value := "0x4000000000000"
		if d.bad[i] = !d.bad[i]; !d.bad[i] {
			value = "0x0"
		}
		d.do(d.node.Set(pathCard(i), 0, "errors/errors", value))
	}
	ctx, cancel := context.WithTimeout(d.t.Context(), patient.Limit)
	defer cancel()
	_, err := d.kubelet.AwaitList(ctx, testResource, func(l simkubelet.List) bool {
		for _, i := range ports {
			if device, listed := l.Device(strings.TrimPrefix(pathCard(i), "0000:")); !listed || device.Healthy == d.bad[i] {
				return false
			}
		}
		return true
	})
	d.do(err)
}

// serves fails the test unless the probes and Allocate are answered.
func (d *stalled) serves() {
	d.t.Helper()
	for _, path := range []string{"/healthz", "/readyz"} {
		if text, code := cmdtest.Get(d.t, d.address+path); code != 200 {
			d.t.Errorf("%s = %d %q, want 200", path, code, text)
		}
	}
	ctx, cancel := context.WithTimeout(d.t.Context(), patient.Limit)
	defer cancel()
	must.Value(d.kubelet.Allocate(ctx, testResource, "0f:00.0"))(d.t)
}

// stop sends SIGTERM, and fails the test unless the daemon ends without an error.
func (d *stalled) stop() {
	d.t.Helper()
	d.do(d.Process.Signal(syscall.SIGTERM))
	if state, err := d.Process.Wait(); err != nil || state.ExitCode() != 0 {
		d.t.Errorf("after SIGTERM: %v, %v; want exit 0", state, err)
	}
}

// While its log is not read, the daemon sends each change to the kubelet, answers requests, and ends on SIGTERM.
func TestStalledLogBlocksNothing(t *testing.T) {
	t.Parallel()
	d := stall(t)
	for i := range 80 {
		d.turn(i%3, 3+i%3, 6+i%3, 9+i%3, 12+i%3)
		if i%20 == 10 {
			d.serves()
		}
	}
	d.stop()
}

// crashIn is the environment variable that makes the test binary a daemon that panics.
const crashIn = "ACCELERATOR_TEST_CRASH"

// liveCrash is a daemon in which a goroutine panics right after it has logged.
func liveCrash(dir string) (exitCode int) {
	cfg := config.Defaults()
	cfg.Mode, cfg.SysfsRoot, cfg.DevRoot, cfg.KubeletDir, cfg.HTTPAddress, cfg.Socket = offer.Pool, dir, dir, dir, "", ""
	cfg.StateDir = ""
	counts := metrics.New("test")
	log := daemon.OpenLog(cfg, os.Stderr, counts)
	defer log.Close()
	s := deviceplugin.New("test", cfg, log.Logger, counts, func(*inventory.Config, *server.Config) {
		for i := range 100 {
			log.Warn("read timed out", logevent.ReadTimeout, logevent.PCI(strconv.Itoa(i)), logevent.Lasted(0))
		}
		panic("at work")
	})
	_ = s.Live(context.Background(), log)
	return 0
}

// A panic ends the daemon. All lines that were logged before it are in the log.
func TestLinesBeforeAPanicAreWritten(t *testing.T) {
	t.Parallel()
	for range 5 {
		cmd := exec.CommandContext(t.Context(), os.Args[0])
		cmd.Env = append(os.Environ(), crashIn+"="+cmdtest.ShortDir(t))
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		_ = cmd.Run() // its exit code is checked below
		log, crash, panicked := strings.Cut(stderr.String(), "panic: at work [recovered, repanicked]\n")
		if cmd.ProcessState.ExitCode() != 2 || !panicked || !strings.Contains(crash, "liveCrash") {
			t.Fatalf("%v, want a panic and where it was\n%s", cmd.ProcessState, stderr.String())
		}
		n := 0
		for line := range strings.Lines(log) {
			if strings.Contains(line, fmt.Sprintf(`"pci":"%d"`, n)) {
				n++
			}
		}
		compare.Equal(t, "lines before the panic", 100, n)
	}
}
