package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"b-com.com/accelerator-device-plugin/sim/simkubelet"
	"b-com.com/accelerator-device-plugin/sim/simnode"
)

const (
	resource = "b-com.com/accelerator"
	afu      = "d8424dc4a4a3c413f89e433683f9040b"
	region   = "69528db6eb31577a8c3668f9faa081f6"
)

// daemon is a process of the binary on a simulated node of its own.
type daemon struct {
	dir     string
	node    *simnode.Node
	kubelet *simkubelet.Kubelet
	pods    *simkubelet.PodResources
	process *exec.Cmd
	begin   time.Time
}

// launch starts the binary on a node with the given number of cards, each with one port. The
// intervals are the defaults; more are additional flags.
func launch(ctx context.Context, binary string, cards int, more ...string) (*daemon, error) {
	return launchOn(ctx, binary, func(n *simnode.Node) error {
		for i := range cards {
			if err := n.Plug(simnode.Card{Address: address(i), Ports: 1, AFUID: afu, InterfaceID: region, NUMANode: -1}); err != nil {
				return err
			}
		}
		return nil
	}, more...)
}

// launchOn is launch on a node with the cards that plug plugs.
func launchOn(ctx context.Context, binary string, plug func(*simnode.Node) error, more ...string) (*daemon, error) {
	dir, err := os.MkdirTemp("", "accel-bench-")
	if err != nil {
		return nil, err
	}
	d := &daemon{dir: dir}
	if d.node, err = simnode.New(dir); err != nil {
		return nil, errors.Join(err, d.end())
	}
	if err := plug(d.node); err != nil {
		return nil, errors.Join(err, d.end())
	}
	if d.kubelet, err = simkubelet.Start(ctx, filepath.Join(dir, "kubelet"), simkubelet.Behaviour{}); err != nil {
		return nil, errors.Join(err, d.end())
	}
	pods := filepath.Join(dir, "pods.sock")
	if d.pods, err = simkubelet.StartPodResources(ctx, pods); err != nil {
		return nil, errors.Join(err, d.end())
	}
	d.pods.Join(d.kubelet)
	d.process = exec.CommandContext(ctx, binary, append([]string{"--sysfs-root", d.node.Sys, "--dev-root", d.node.Dev,
		"--kubelet-dir", filepath.Join(dir, "kubelet"), "--pod-resources-socket", pods, "--http-address", "", "--socket", "", "--state-dir", "", "--recovery-hold", "0s", "--flap-limit", "0", "--log-level", "error"}, more...)...)
	d.process.Stderr = os.Stderr
	d.begin = time.Now()
	if err := d.process.Start(); err != nil {
		return nil, errors.Join(err, d.end())
	}
	return d, nil
}

func (d *daemon) end() error {
	var err error
	if d.process != nil && d.process.Process != nil {
		_ = d.process.Process.Signal(syscall.SIGTERM)
		err = d.process.Wait()
	}
	if d.kubelet != nil {
		d.kubelet.Stop()
	}
	if d.pods != nil {
		d.pods.Stop()
	}
	return errors.Join(err, os.RemoveAll(d.dir))
}

func address(i int) string { return fmt.Sprintf("0000:%02x:00.0", i) }

func id(i int) string { return fmt.Sprintf("%02x:00.0", i) }

// await waits for a list with the given number of devices, and returns the time of its receipt.
func (d *daemon) await(ctx context.Context, devices int) (time.Time, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	list, err := d.kubelet.AwaitList(ctx, resource, func(l simkubelet.List) bool { return len(l.Devices) == devices })
	return list.Received, err
}

const ports = 32

func start(ctx context.Context, binary string) ([]row, error) {
	var took []time.Duration
	for range 20 {
		d, err := launch(ctx, binary, ports)
		if err != nil {
			return nil, err
		}
		at, err := d.await(ctx, ports)
		if err := errors.Join(err, d.end()); err != nil {
			return nil, err
		}
		took = append(took, at.Sub(d.begin))
	}
	slices.Sort(took)
	return []row{{"process start → first list received, 32 ports", "median " + milli(took[len(took)/2]) + ", worst of 20 " + milli(took[len(took)-1]), "≤ 50 ms"}}, nil
}

func latency(ctx context.Context, binary string) ([]row, error) {
	d, err := launch(ctx, binary, ports)
	if err != nil {
		return nil, err
	}
	took, err := d.changes(ctx, 2000)
	if err := errors.Join(err, d.end()); err != nil {
		return nil, err
	}
	slices.Sort(took)
	at := func(share float64) string { return milli(took[int(share*float64(len(took)-1))]) }
	return []row{{
		"change of an attribute → list received by the kubelet side, 32 ports",
		fmt.Sprintf("median %s, p99 %s, worst of 2000 %s", at(0.5), at(0.99), at(1)),
		"median ≤ 1 ms, p99 ≤ 5 ms",
	}}, nil
}

// changes makes ports unhealthy and healthy in turn, and returns the time from each change until
// its list was received.
func (d *daemon) changes(ctx context.Context, n int) ([]time.Duration, error) {
	if _, err := d.await(ctx, ports); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	var took []time.Duration
	for i := range n {
		card, healthy, value := i/2%ports, i%2 == 1, "0x4000000000000"
		if healthy {
			value = "0x0"
		}
		begin := time.Now()
		if err := d.node.Set(address(card), 0, "errors/errors", value); err != nil {
			return nil, err
		}
		list, err := d.kubelet.AwaitList(ctx, resource, func(l simkubelet.List) bool {
			device, ok := l.Device(id(card))
			return ok && device.Healthy == healthy
		})
		if err != nil {
			return nil, err
		}
		took = append(took, list.Received.Sub(begin))
	}
	return took, nil
}

// idle measures memory and processor time of a daemon without any changes.
func idle(ctx context.Context, binary string) ([]row, error) {
	var rows []row
	for _, setting := range []struct {
		ports int
		aim   string
	}{{8, "≤ 0.1 %"}, {32, "≤ 0.3 %"}} {
		memory, share, err := idleAt(ctx, setting.ports, func() (*daemon, error) { return launch(ctx, binary, setting.ports) })
		if err != nil {
			return nil, err
		}
		if setting.ports == ports {
			rows = append(rows, row{"resident memory, 32 ports, after a minute", fmt.Sprintf("%.1f MiB", memory), "≤ 24 MiB"})
		}
		rows = append(rows, row{fmt.Sprintf("idle CPU, %d ports, default intervals", setting.ports), fmt.Sprintf("%.3f %% of a core", 100*share), setting.aim})
	}
	return rows, nil
}

// idleFunctions measures a daemon whose devices are virtual functions on vfio-pci.
func idleFunctions(ctx context.Context, binary string) (_ []row, err error) {
	const functions = 64
	rules, err := os.CreateTemp("", "accel-bench-*.yaml")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.Remove(rules.Name())) }()
	_, err = fmt.Fprintf(rules, "resources:\n- name: %s\n  match: {family: vfio}\n", resource)
	if err := errors.Join(err, rules.Close()); err != nil {
		return nil, err
	}
	_, share, err := idleAt(ctx, functions, func() (*daemon, error) {
		return launchOn(ctx, binary, func(n *simnode.Node) error {
			const physical = "0000:3b:00.0"
			err := n.Plug(simnode.Card{Address: physical, Group: simnode.OwnGroup, Driver: "pci-pf-stub", NUMANode: -1})
			for i := 1; i <= functions && err == nil; i++ {
				err = n.Plug(simnode.Card{
					Address: fmt.Sprintf("0000:3b:%02x.%d", i/8, i%8), PhysFn: physical, Group: simnode.OwnGroup, Driver: simnode.VFIODriver, NUMANode: -1,
				})
			}
			return err
		}, "--families", "dfl,opae,vfio", "--config", rules.Name())
	})
	return []row{
		{fmt.Sprintf("idle CPU, %d virtual functions on vfio-pci, default intervals", functions), fmt.Sprintf("%.3f %% of a core", 100*share), "≤ 0.5 %"},
	}, err
}

func idleAt(ctx context.Context, devices int, start func() (*daemon, error)) (memory, share float64, err error) {
	d, err := start()
	if err != nil {
		return 0, 0, err
	}
	defer func() { err = errors.Join(err, d.end()) }()
	if _, err := d.await(ctx, devices); err != nil {
		return 0, 0, err
	}
	before, err := d.cpu()
	if err != nil {
		return 0, 0, err
	}
	begin := time.Now()
	select {
	case <-time.After(time.Minute):
	case <-ctx.Done():
		return 0, 0, ctx.Err()
	}
	after, err := d.cpu()
	if err != nil {
		return 0, 0, err
	}
	memory, err = d.resident()
	return memory, float64(after-before) / float64(time.Since(begin)), err
}

// cpu returns the processor time of the process so far: the sum over its threads of the first
// field of /proc/PID/task/TID/schedstat, in nanoseconds.
func (d *daemon) cpu() (time.Duration, error) {
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", d.process.Process.Pid))
	if err != nil || len(files) == 0 {
		return 0, fmt.Errorf("/proc/%d/task: found no schedstat, want one for each thread: %v", d.process.Process.Pid, err)
	}
	var sum time.Duration
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			return 0, err
		}
		ran, err := strconv.ParseInt(strings.Fields(string(text))[0], 10, 64)
		if err != nil {
			return 0, fmt.Errorf("%s: %w", f, err)
		}
		sum += time.Duration(ran)
	}
	return sum, nil
}

// resident returns the resident memory of the process (VmRSS) in MiB.
func (d *daemon) resident() (float64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", d.process.Process.Pid))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			kb, err := strconv.ParseFloat(strings.Fields(rest)[0], 64)
			return kb / 1024, err
		}
	}
	return 0, fmt.Errorf("/proc/%d/status: found no VmRSS", d.process.Process.Pid)
}
