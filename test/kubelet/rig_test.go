package kubelet_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	v1 "k8s.io/api/core/v1"

	"b-com.com/accelerator-device-plugin/sim/simnode"
	"b-com.com/accelerator-device-plugin/test/kubelet"
)

// Two AFUs and an interface, for two cards with two ports each, on different NUMA nodes.
const (
	afuA  = "d8424dc4a4a3c413f89e433683f9040b"
	afuB  = "f7df405cbd7acf7222f144b0b93acd18"
	iface = "69528db6eb31577a8c3668f9faa081f6"
)

var (
	cardA = simnode.Card{Address: "0000:3b:00.0", Ports: 2, AFUID: afuA, InterfaceID: iface, NUMANode: 0}
	cardB = simnode.Card{Address: "0000:5e:00.0", Ports: 2, AFUID: afuA, InterfaceID: iface, NUMANode: 1}
)

// Values of a port's errors. broken is AP6, which makes the port unhealthy.
const (
	broken = "0x4000000000000"
	whole  = "0x0"
)

// rig is a node with a kubelet and a daemon. Its resource names are unique, because all of the process's kubelets share
// the kubelet's metrics.
type rig struct {
	t         *testing.T
	node      *simnode.Node
	kubelet   *kubelet.Kubelet
	daemon    *kubelet.Daemon          // the current daemon
	running   map[*kubelet.Daemon]bool // all running daemons
	resource  string                   // resource name in single and pool mode
	namespace string                   // domain of the resource names in other modes
	logs      []string                 // one file per daemon, because after SIGKILL the last line may be incomplete
	dir       string
	flags     []string // flags for every daemon
}

var rigs atomic.Int64

// newRig starts a kubelet, plugs in the cards and starts a daemon with the given flags.
func newRig(t *testing.T, cards []simnode.Card, flags ...string) *rig {
	t.Helper()
	dir, err := os.MkdirTemp("", "adp") // short, because a Unix socket's path has at most 107 bytes
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	domain := fmt.Sprintf("r%d.example.com", rigs.Add(1))
	r := &rig{
		t: t, dir: dir, resource: domain + "/accelerator", namespace: domain, flags: flags,
		running: map[*kubelet.Daemon]bool{},
	}
	r.node, err = simnode.New(dir)
	r.do(err)
	for _, card := range cards {
		r.do(r.node.Plug(card))
	}
	r.kubelet, err = kubelet.Start(t.Context(), dir)
	r.do(err)
	t.Cleanup(func() {
		if err := r.kubelet.Stop(); err != nil {
			t.Errorf("kubelet: %v", err)
		}
	})
	t.Cleanup(func() {
		for d := range r.running {
			r.end(d)
		}
		for _, line := range r.lines() {
			if line["level"] == "error" {
				t.Errorf("log: found %v, want no errors", line)
			}
		}
	})
	r.daemon = r.startDaemon()
	return r
}

// started is like newRig, but for tests that run in parallel with others. It waits until the kubelet has all ports.
func started(t *testing.T, cards ...simnode.Card) *rig {
	t.Helper()
	t.Parallel()
	ports := int64(0)
	for _, card := range cards {
		ports += int64(card.Ports)
	}
	r := newRig(t, cards)
	r.advertises("started", r.only(ports, ports))
	return r
}

// startDaemon starts another daemon, with these flags after the rig's.
func (r *rig) startDaemon(flags ...string) *kubelet.Daemon {
	r.t.Helper()
	all := append([]string{
		"--sysfs-root", r.node.Sys, "--dev-root", r.node.Dev, "--host-dev-root", "/dev",
		"--kubelet-dir", r.kubelet.Dir, "--pod-resources-socket", r.kubelet.Pods, "--http-address", "", "--socket", "", "--state-dir", filepath.Join(filepath.Dir(r.kubelet.Dir), "state"),
		"--resource-name", r.resource, "--resource-namespace", r.namespace,
		"--log-level", "debug", "--recovery-hold", "0s", "--flap-limit", "0",
	}, append(r.flags, flags...)...)
	log := fmt.Sprintf("%s-%s-%d.log", strings.ReplaceAll(r.t.Name(), "/", "-"), r.namespace, len(r.logs))
	r.logs = append(r.logs, filepath.Join(*out, log))
	d, err := kubelet.StartDaemon(*binary, r.logs[len(r.logs)-1], all...)
	r.do(err)
	r.running[d] = true
	return d
}

// end terminates a daemon, which must exit with status 0.
func (r *rig) end(d *kubelet.Daemon) {
	r.t.Helper()
	delete(r.running, d)
	if err := d.End(); err != nil {
		r.t.Errorf("daemon: %v", err)
	}
}

// kill kills a daemon with SIGKILL.
func (r *rig) kill(d *kubelet.Daemon) {
	r.t.Helper()
	delete(r.running, d)
	r.do(d.Kill())
}

// do ends the test if err isn't nil.
func (r *rig) do(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
}

// lines returns the lines of all daemons' logs.
func (r *rig) lines() []map[string]any {
	r.t.Helper()
	var all []map[string]any
	for _, log := range r.logs {
		lines, err := kubelet.Lines(log)
		r.do(err)
		all = append(all, lines...)
	}
	return all
}

// sockets returns the names of the plugins' sockets.
func (r *rig) sockets() []string {
	r.t.Helper()
	names, err := r.kubelet.Sockets()
	r.do(err)
	return names
}

// deleteSockets deletes the plugins' sockets.
func (r *rig) deleteSockets() {
	r.t.Helper()
	for _, name := range r.sockets() {
		r.do(os.Remove(filepath.Join(r.kubelet.Dir, name)))
	}
}

// admit admits a pod that requests the given number of devices of a resource.
func (r *rig) admit(name, resource string, devices int64) *v1.Pod {
	r.t.Helper()
	pod := kubelet.NewPod(name, resource, devices)
	r.do(r.kubelet.Admit(r.t.Context(), pod))
	return pod
}
