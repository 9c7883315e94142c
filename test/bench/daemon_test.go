package main_test

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"b-com.com/accelerator-device-plugin/sim/simkubelet"
	"b-com.com/accelerator-device-plugin/sim/simnode"
	"b-com.com/accelerator-device-plugin/test/must"
)

// dir is the directory with the programs to measure.
var dir = flag.String("dir", "", "directory of the built programs")

const (
	resource = "b-com.com/accelerator"
	afu      = "d8424dc4a4a3c413f89e433683f9040b"
	region   = "69528db6eb31577a8c3668f9faa081f6"
	ports    = 32
	scrapes  = 20 // as many as in five minutes at an interval of 15 s
)

// daemon is a process of the binary, on its own simulated node.
type daemon struct {
	node    *simnode.Node
	kubelet *simkubelet.Kubelet
	process *exec.Cmd
	begin   time.Time
}

func address(i int) string { return fmt.Sprintf("0000:%02x:00.0", i) }

func id(i int) string { return fmt.Sprintf("%02x:00.0", i) }

// cards returns cards that have one port each.
func cards(n int) []simnode.Card {
	var all []simnode.Card
	for i := range n {
		all = append(all, simnode.Card{Address: address(i), Ports: 1, AFUID: afu, InterfaceID: region, NUMANode: -1})
	}
	return all
}

func plug(b *testing.B, dir string, cards []simnode.Card) *simnode.Node {
	b.Helper()
	node := must.Value(simnode.New(dir))(b)
	for _, c := range cards {
		must.Succeed(b, node.Plug(c))
	}
	return node
}

// launch starts the binary on a node with the given cards. It uses the default intervals; more contains additional
// flags. The caller must call end.
func launch(b *testing.B, cards []simnode.Card, more ...string) (d *daemon, end func()) {
	b.Helper()
	tree, err := os.MkdirTemp("", "accel-bench-") // short enough for sockets
	must.Succeed(b, err)
	d = &daemon{node: plug(b, tree, cards)}
	if d.kubelet, err = simkubelet.Start(b.Context(), filepath.Join(tree, "kubelet"), simkubelet.Behaviour{}); err != nil {
		b.Fatal(err)
	}
	socket := filepath.Join(tree, "pods.sock")
	pods := must.Value(simkubelet.StartPodResources(b.Context(), socket))(b)
	pods.Join(d.kubelet)
	d.process = exec.CommandContext(b.Context(), filepath.Join(*dir, "accelerator-device-plugin"), append([]string{"--sysfs-root", d.node.Sys, "--dev-root", d.node.Dev,
		"--kubelet-dir", filepath.Join(tree, "kubelet"), "--pod-resources-socket", socket, "--http-address", "", "--socket", "", "--state-dir", filepath.Join(tree, "state"),
		"--recovery-hold", "0s", "--flap-limit", "0", "--log-level", "error"}, more...)...)
	d.process.Stderr = os.Stderr
	d.begin = time.Now()
	must.Succeed(b, d.process.Start())
	return d, func() {
		_ = d.process.Process.Signal(syscall.SIGTERM) // it may have exited already, which Wait reports
		err := d.process.Wait()
		d.kubelet.Stop()
		pods.Stop()
		must.Succeed(b, err, os.RemoveAll(tree))
	}
}

// await waits for a list for which wanted returns true, and returns when the list was received.
func (d *daemon) await(b *testing.B, wanted func(simkubelet.List) bool) time.Time {
	b.Helper()
	list := must.Value(d.kubelet.AwaitList(b.Context(), resource, wanted))(b)
	return list.Received
}

func count(devices int) func(simkubelet.List) bool {
	return func(l simkubelet.List) bool { return len(l.Devices) == devices }
}

func report(b *testing.B, took []time.Duration) {
	slices.Sort(took)
	for unit, share := range map[string]float64{"p50-ms": 0.5, "p99-ms": 0.99, "max-ms": 1} {
		b.ReportMetric(float64(took[int(share*float64(len(took)-1))])/1e6, unit)
	}
}

func BenchmarkStart(b *testing.B) {
	var took []time.Duration
	for range b.N {
		d, end := launch(b, cards(ports))
		took = append(took, d.await(b, count(ports)).Sub(d.begin))
		end()
	}
	report(b, took)
}

// BenchmarkChange alternately makes ports unhealthy and healthy, and measures the time from each change until the
// kubelet has received the list.
func BenchmarkChange(b *testing.B) {
	d, end := launch(b, cards(ports))
	defer end()
	d.await(b, count(ports))
	var took []time.Duration
	for i := range b.N {
		card, healthy, value := i/2%ports, i%2 == 1, "0x4000000000000"
		if healthy {
			value = "0x0"
		}
		begin := time.Now()
		must.Succeed(b, d.node.Set(address(card), 0, "errors/errors", value))
		took = append(took, d.await(b, func(l simkubelet.List) bool {
			device, ok := l.Device(id(card))
			return ok && device.Healthy == healthy
		}).Sub(begin))
	}
	report(b, took)
}

// BenchmarkGone removes a device node and puts it back, and measures the time from each removal until the kubelet has
// received the list.
func BenchmarkGone(b *testing.B) {
	d, end := launch(b, cards(ports))
	defer end()
	d.await(b, count(ports))
	aside := d.node.Dev + ".aside"
	var took []time.Duration
	for i := range b.N {
		card := i % ports
		healthy := func(want bool) func(simkubelet.List) bool {
			return func(l simkubelet.List) bool {
				device, ok := l.Device(id(card))
				return want && ok && device.Healthy || !want && !(ok && device.Healthy)
			}
		}
		node := filepath.Join(d.node.Dev, d.node.PortNode(address(card), 0))
		begin := time.Now()
		must.Succeed(b, os.Rename(node, aside))
		took = append(took, d.await(b, healthy(false)).Sub(begin))
		must.Succeed(b, os.Rename(aside, node))
		d.await(b, healthy(true))
	}
	report(b, took)
}

// BenchmarkIdle measures the memory and processor time of a daemon when nothing changes.
func BenchmarkIdle(b *testing.B) {
	for _, n := range []int{8, ports} {
		b.Run(fmt.Sprintf("ports=%d", n), func(b *testing.B) { idle(b, n, cards(n)) })
	}
	b.Run("functions=64", func(b *testing.B) {
		rules := filepath.Join(b.TempDir(), "rules.yaml")
		must.Succeed(b, os.WriteFile(rules, []byte("resources:\n- name: "+resource+"\n  match: {family: vfio}\n"), 0o600))
		const physical = "0000:3b:00.0"
		functions := []simnode.Card{{Address: physical, Group: simnode.OwnGroup, Driver: "pci-pf-stub", NUMANode: -1}}
		for i := 1; i <= 64; i++ {
			functions = append(functions, simnode.Card{
				Address: fmt.Sprintf("0000:3b:%02x.%d", i/8, i%8), PhysFn: physical, Group: simnode.OwnGroup, Driver: simnode.VFIODriver, NUMANode: -1,
			})
		}
		idle(b, 64, functions, "--families", "dfl,opae,vfio", "--config", rules)
	})
}

func idle(b *testing.B, devices int, cards []simnode.Card, more ...string) {
	d, end := launch(b, cards, more...)
	defer end()
	d.await(b, count(devices))
	before, begin := d.cpu(b), time.Now()
	minute := time.NewTicker(time.Minute)
	defer minute.Stop()
	for range b.N {
		<-minute.C
	}
	b.ReportMetric(100*float64(d.cpu(b)-before)/float64(time.Since(begin)), "cpu-%")
	b.ReportMetric(d.resident(b), "MiB")
}

// BenchmarkScrape measures the memory after several scrapes, and the processor time of a scrape. The interval of 3 s is
// shorter than in production, and leaves less time for garbage collection.
func BenchmarkScrape(b *testing.B) {
	pid := os.Getpid() // for an address that no other process uses
	address := fmt.Sprintf("127.%d.%d.%d:9480", pid>>16, pid>>8&0xff, pid&0xff)
	d, end := launch(b, cards(ports), "--http-address", address)
	defer end()
	d.await(b, count(ports))
	every := time.NewTicker(3 * time.Second)
	defer every.Stop()
	var took time.Duration
	for range scrapes {
		<-every.C
		before := d.cpu(b)
		answer, err := http.Get("http://" + address + "/metrics")
		must.Succeed(b, err)
		_, err = io.Copy(io.Discard, answer.Body)
		if err := errors.Join(err, answer.Body.Close()); err != nil || answer.StatusCode != http.StatusOK {
			b.Fatalf("/metrics: found %s, %v; want 200 OK", answer.Status, err)
		}
		took += d.cpu(b) - before
	}
	b.ReportMetric(float64(took)/scrapes/1e6, "cpu-ms")
	b.ReportMetric(d.resident(b), "MiB")
}

// BenchmarkHook measures a hook from exec to exit. The node has 32 cards, and the container's two cards already have
// their AFUs. The hook logs to a file on disk.
func BenchmarkHook(b *testing.B) {
	bundle := b.TempDir()
	node := plug(b, bundle, cards(ports))
	tool := must.Value(filepath.Abs(filepath.Join(*dir, "accelerator-fpga")))(b) // absolute, because the hook runs in another directory
	var entries []string
	for _, id := range []string{id(ports - 2), id(ports - 1)} {
		entries = append(entries, fmt.Sprintf(`{"path": %q, "args": ["accelerator-fpga", "hook", "--device", %q]}`, tool, id))
	}
	config := fmt.Sprintf(`{"process": {"env": ["FPGA_REGION_1=%s", "FPGA_AFU_1=%s", "FPGA_REGION_2=%[1]s", "FPGA_AFU_2=%[2]s"]}, "hooks": {"createRuntime": [%[3]s]}}`,
		region, afu, strings.Join(entries, ", "))
	must.Succeed(b, os.WriteFile(filepath.Join(bundle, "config.json"), []byte(config), 0o600))
	var took []time.Duration
	for range b.N {
		run := exec.CommandContext(b.Context(), tool, "hook", "--device", id(ports-1), "--sysfs-root", node.Sys, "--dev-root", node.Dev,
			"--store", filepath.Join(bundle, "none"), "--lock-dir", filepath.Join(bundle, "none"), "--log-file", filepath.Join(bundle, "hook.log"))
		run.Env, run.Dir, run.Stdin = []string{}, bundle, strings.NewReader(fmt.Sprintf(`{"id": "bench", "bundle": %q}`, bundle))
		begin := time.Now()
		out, err := run.CombinedOutput()
		if took = append(took, time.Since(begin)); err != nil {
			b.Fatalf("%s hook: %v: %s", tool, err, out)
		}
	}
	report(b, took)
}

// cpu returns the processor time that the process has used so far: the sum over its threads of the first field in
// /proc/PID/task/TID/schedstat, in nanoseconds.
func (d *daemon) cpu(b *testing.B) (sum time.Duration) {
	b.Helper()
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", d.process.Process.Pid))
	if err != nil || len(files) == 0 {
		b.Fatalf("/proc/%d/task: found no schedstat (%v), want one for each thread", d.process.Process.Pid, err)
	}
	for _, f := range files {
		text := must.Value(os.ReadFile(f))(b)
		ran, err := strconv.ParseInt(strings.Fields(string(text))[0], 10, 64)
		if err != nil {
			b.Fatalf("%s: %v", f, err)
		}
		sum += time.Duration(ran)
	}
	return sum
}

// resident returns the process's resident memory in MiB.
func (d *daemon) resident(b *testing.B) float64 {
	b.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", d.process.Process.Pid))
	_, rest, _ := strings.Cut(string(text), "VmRSS:")
	var kb float64
	if _, serr := fmt.Sscan(rest, &kb); err != nil || serr != nil {
		b.Fatalf("VmRSS: %v", errors.Join(err, serr))
	}
	return kb / 1024
}
