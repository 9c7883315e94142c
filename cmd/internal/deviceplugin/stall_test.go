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
	"time"

	"b-com.com/accelerator-device-plugin/cmd/internal/cmdtest"
	"b-com.com/accelerator-device-plugin/cmd/internal/deviceplugin"
	"b-com.com/accelerator-device-plugin/daemon"
	"b-com.com/accelerator-device-plugin/daemon/config"
	"b-com.com/accelerator-device-plugin/internal/logevent"
	"b-com.com/accelerator-device-plugin/internal/logevent/eventtest"
	"b-com.com/accelerator-device-plugin/internal/metrics"
	"b-com.com/accelerator-device-plugin/internal/metrics/metricstest"
	"b-com.com/accelerator-device-plugin/internal/patient"
	"b-com.com/accelerator-device-plugin/inventory"
	"b-com.com/accelerator-device-plugin/offer"
	"b-com.com/accelerator-device-plugin/server"
	"b-com.com/accelerator-device-plugin/sim/simkubelet"
	"b-com.com/accelerator-device-plugin/sim/simnode"
)

// stalled is a daemon whose stderr is no longer read after the start.
type stalled struct {
	*exec.Cmd
	t       *testing.T
	node    *simnode.Node
	kubelet *simkubelet.Kubelet
	log     *bufio.Reader
	lines   []stalledLine // read so far
	address string        // of HTTP
	bad     [16]bool      // the ports with an error; the last one never has one
}

func pathCard(i int) string { return fmt.Sprintf("0000:%02x:00.0", i) }

// stalledLine is a line of its log.
type stalledLine struct {
	Event, Level, Address, Device, Old, New string
	Rev, Count                              int
	Info                                    int `json:"dropped_info"`
	Warn                                    int `json:"dropped_warn"`
}

// stall starts the daemon on a node of 16 cards, and reads its log until all have been
// listed.
func stall(t *testing.T) *stalled {
	t.Helper()
	dir := cmdtest.ShortDir(t)
	d := &stalled{t: t}
	var err error
	d.node, err = simnode.New(dir)
	d.do(err)
	for i := range d.bad {
		d.do(d.node.Plug(simnode.Card{Address: pathCard(i), Ports: 1, AFUID: cardA.AFUID, InterfaceID: cardA.InterfaceID}))
	}
	d.kubelet, err = simkubelet.Start(t.Context(), filepath.Join(dir, "kubelet"), simkubelet.Behaviour{})
	d.do(err)
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
	for line := d.read(); line.Event != "list.sent" || d.address == ""; line = d.read() {
		if line.Event == "http.served" {
			d.address = "http://" + line.Address
		}
	}
	return d
}

func (d *stalled) do(err error) {
	d.t.Helper()
	if err != nil {
		d.t.Fatal(err)
	}
}

// read reads the next line of the log.
func (d *stalled) read() stalledLine {
	d.t.Helper()
	text, err := d.log.ReadBytes('\n')
	d.do(err)
	var line stalledLine
	d.do(errors.Join(eventtest.Line(text), json.Unmarshal(text, &line)))
	d.lines = append(d.lines, line)
	return line
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
	_, err := d.kubelet.Allocate(ctx, testResource, "0f:00.0")
	d.do(err)
}

// sum returns the sum of the metrics whose series contain one of these texts.
func (d *stalled) sum(series ...string) int {
	d.t.Helper()
	page, _ := cmdtest.Get(d.t, d.address+"/metrics")
	sum := 0
	for name, value := range metricstest.Samples(metricstest.Ours(page), "accelerator_") {
		for _, s := range series {
			if strings.Contains(name, s) {
				n, err := strconv.Atoi(value)
				d.do(err)
				sum += n
			}
		}
	}
	return sum
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

// When the reader continues, each line is written in order, or counted at its place.
func TestStalledLogCountsMissingLines(t *testing.T) {
	t.Parallel()
	d := stall(t)
	all := []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14}
	for d.sum("accelerator_log_dropped_total") < 100 {
		for range 10 {
			d.turn(all...)
		}
	}
	d.serves()
	for d.read().Event != logevent.LogDropped.String {
	}
	d.turn(all...)

	// Except for the start, there is one line for each transition, list and allocation that the
	// metrics have counted.
	const warn, info = 0, 1
	written, produced := [2]int{}, [2]int{}
	count := func() {
		line := d.lines[len(d.lines)-1]
		switch {
		case line.Event == logevent.LogDropped.String:
			written[warn] += line.Warn
			written[info] += line.Info
			if line.Count != line.Warn+line.Info {
				t.Errorf("log.dropped = %+v, want a count that is the sum", line)
			}
		case line.Event == "device.health" && line.Level == "warn":
			written[warn]++
		case line.Event == "device.health", line.Event == "device.added", line.Event == "list.sent", line.Event == "allocate.served":
			written[info]++
		}
	}
	lines := d.lines
	for i := range lines {
		d.lines = lines[:i+1]
		count()
	}
	for deadline := time.Now().Add(patient.Limit); ; {
		produced[warn] = d.sum(`accelerator_device_transitions_total{new="unhealthy"`)
		produced[info] = d.sum(`accelerator_device_transitions_total{new="healthy"`, "accelerator_lists_sent_total", "accelerator_allocations_total")
		if written == produced {
			break
		}
		if time.Now().After(deadline) || written[warn] > produced[warn] || written[info] > produced[info] {
			t.Fatalf("lines written or reported as dropped: %v, produced: %v (warn, info)", written, produced)
		}
		d.read()
		count()
	}
	t.Logf("%d lines produced, %d dropped", produced[warn]+produced[info], d.sum("accelerator_log_dropped_total"))
	d.checkOrder()
	d.stop()
}

// checkOrder fails the test if lines are missing without a log.dropped at their place.
func (d *stalled) checkOrder() {
	rev, health := 0, map[string]string{}
	for _, line := range d.lines {
		switch line.Event {
		case logevent.LogDropped.String:
			clear(health)
		case "list.sent":
			if line.Rev <= rev {
				d.t.Errorf("list.sent of rev %d after rev %d", line.Rev, rev)
			}
			rev = line.Rev
		case "device.health":
			if was, known := health[line.Device]; known && line.Old != was {
				d.t.Errorf("%s turned from %s, and was %s", line.Device, line.Old, was)
			}
			health[line.Device] = line.New
		}
	}
}

// On a full disk the daemon cannot write its log, and keeps running.
func TestLogOnAFullDisk(t *testing.T) {
	t.Parallel()
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer full.Close()
	dir := cmdtest.ShortDir(t)
	kubelet, err := simkubelet.Start(t.Context(), filepath.Join(dir, "kubelet"), simkubelet.Behaviour{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(kubelet.Stop)
	cmd := cmdtest.Command(t, "--mode", "pool", "--accel-nbunits", "1", "--kubelet-dir", filepath.Join(dir, "kubelet"))
	cmd.Stderr = full
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	d := &stalled{t: t, Cmd: cmd}
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	_, err = kubelet.AwaitList(t.Context(), testResource, func(l simkubelet.List) bool { return len(l.Devices) == 1 })
	d.do(err)
	_, err = kubelet.Allocate(t.Context(), testResource, "0")
	d.do(err)
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
			log.Warn("reading timed out", logevent.ReadTimeout, logevent.PCI(strconv.Itoa(i)), logevent.Lasted(0))
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
		if n != 100 {
			t.Errorf("%d lines before the panic, want 100", n)
		}
	}
}
