package kubelet_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"

	"b-com.com/accelerator-device-plugin/internal/simnode"
	"b-com.com/accelerator-device-plugin/test/kubelet"
)

// Two AFUs, one interface; two cards with two ports each, each on a NUMA node of
// its own.
const (
	afuA  = "d8424dc4a4a3c413f89e433683f9040b"
	afuB  = "f7df405cbd7acf7222f144b0b93acd18"
	iface = "69528db6eb31577a8c3668f9faa081f6"
)

var (
	cardA = simnode.Card{Address: "0000:3b:00.0", Ports: 2, AFUID: afuA, InterfaceID: iface, NUMANode: 0}
	cardB = simnode.Card{Address: "0000:5e:00.0", Ports: 2, AFUID: afuA, InterfaceID: iface, NUMANode: 1}
)

// Of a port: AP6 (it is not healthy), and that all is well.
const (
	broken = "0x4000000000000"
	whole  = "0x0"
)

// rig is a node with a kubelet and a daemon, and names of resources that no other
// rig has: the kubelet's metrics are those of the process.
type rig struct {
	t         *testing.T
	node      *simnode.Node
	kubelet   *kubelet.Kubelet
	daemon    *kubelet.Daemon          // the one that the test speaks of
	running   map[*kubelet.Daemon]bool // all of them
	resource  string                   // of modes single and pool
	namespace string                   // of the others
	log       string                   // the daemons'
	dir       string
	flags     []string // of each daemon
	patience  time.Duration
}

var rigs atomic.Int64

// newRig starts a kubelet, plugs the cards and starts a daemon with the flags.
func newRig(t *testing.T, s kubelet.Settings, cards []simnode.Card, flags ...string) *rig {
	t.Helper()
	dir, err := os.MkdirTemp("", "adp") // short: paths of sockets have 107 bytes
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	domain := fmt.Sprintf("r%d.example.com", rigs.Add(1))
	r := &rig{
		t: t, dir: dir, resource: domain + "/accelerator", namespace: domain, flags: flags, patience: patience,
		running: map[*kubelet.Daemon]bool{},
		log:     filepath.Join(*out, strings.ReplaceAll(t.Name(), "/", "-")+"-"+domain+".log"),
	}
	r.node, err = simnode.New(dir)
	r.do(err)
	for _, card := range cards {
		r.do(r.node.Plug(card))
	}
	r.kubelet, err = kubelet.Start(t.Context(), dir, s)
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
	})
	r.daemon = r.another()
	return r
}

// another starts one more daemon, with these flags after those of the rig.
func (r *rig) another(flags ...string) *kubelet.Daemon {
	r.t.Helper()
	all := append([]string{
		"--sysfs-root", r.node.Sys, "--dev-root", r.node.Dev, "--host-dev-root", "/dev",
		"--kubelet-dir", r.kubelet.Dir, "--pod-resources-socket", r.kubelet.Pods, "--http-address", "",
		"--resource-name", r.resource, "--resource-namespace", r.namespace,
		"--log-level", "debug", "--recovery-hold", "0s", "--flap-limit", "0",
	}, append(r.flags, flags...)...)
	d, err := kubelet.StartDaemon(*binary, r.log, all...)
	r.do(err)
	r.running[d] = true
	return d
}

// end ends a daemon in good order.
func (r *rig) end(d *kubelet.Daemon) {
	r.t.Helper()
	delete(r.running, d)
	if err := d.End(); err != nil {
		r.t.Errorf("daemon: %v", err)
	}
}

// kill ends a daemon with SIGKILL.
func (r *rig) kill(d *kubelet.Daemon) {
	r.t.Helper()
	delete(r.running, d)
	r.do(d.Kill())
}

// do fails the test where something that the test does fails.
func (r *rig) do(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
}

// amounts are resources that the kubelet advertises.
type amounts map[string]kubelet.Amount

// only is one resource of so many devices, so many of them healthy.
func (r *rig) only(capacity, allocatable int64) amounts {
	return amounts{r.resource: {Capacity: capacity, Allocatable: allocatable}}
}

// patience is how long anything may take. What is to be quicker is measured.
const patience = 30 * time.Second

// slowly lets something take as long as it takes until a device that was given out
// is no longer taken for held whatever the kubelet says, and patience more.
func (r *rig) slowly(await func()) {
	defer func(was time.Duration) { r.patience = was }(r.patience)
	r.patience += time.Minute
	await()
}

// await waits until what is looked at is what is wanted, and returns how long that
// took. The device manager tells nobody that its state has changed: it is asked.
func await[T any](r *rig, when string, look func() T, want T) time.Duration {
	r.t.Helper()
	began := time.Now()
	tick := time.NewTicker(200 * time.Microsecond)
	defer tick.Stop()
	for {
		got := look()
		took := time.Since(began)
		diff := cmp.Diff(want, got)
		switch {
		case diff == "":
			return took
		case took > r.patience:
			r.t.Fatalf("%s: not within %v (-want +got):\n%s", when, r.patience, diff)
		}
		select {
		case <-tick.C:
		case <-r.t.Context().Done():
			r.t.Fatalf("%s: %v", when, r.t.Context().Err())
		}
	}
}

// advertises waits until node status would say this and nothing else.
func (r *rig) advertises(when string, want amounts) time.Duration {
	r.t.Helper()
	return await(r, when, func() amounts { return r.kubelet.Advertised() }, want)
}

// timed is advertises, for the table.
func (r *rig) timed(what string, want amounts) {
	r.t.Helper()
	timings.add(what, r.advertises(what, want))
}

// admit admits a pod that asks for so many devices of a resource.
func (r *rig) admit(name, resource string, devices int64) *v1.Pod {
	r.t.Helper()
	pod := kubelet.NewPod(name, resource, devices)
	r.do(r.kubelet.Admit(r.t.Context(), pod))
	return pod
}

// holds checks which devices a pod holds.
func (r *rig) holds(pod *v1.Pod, want ...string) {
	r.t.Helper()
	if diff := cmp.Diff(want, r.kubelet.Held(pod)); diff != "" {
		r.t.Errorf("pod %s holds (-want +got):\n%s", pod.Name, diff)
	}
}

// health waits until pod status says this of a pod's devices.
func (r *rig) health(when string, pod *v1.Pod, want map[string]string) {
	r.t.Helper()
	await(r, when, func() map[string]string { return r.kubelet.Health(pod) }, want)
}

// told waits until the kubelet was made to write the pod's status anew.
func (r *rig) told(when string, pod *v1.Pod) {
	r.t.Helper()
	await(r, when, func() bool { return r.kubelet.Told(pod) }, true)
}

// registrations waits until Register was called so often for a resource.
func (r *rig) registrations(resource string, want int) {
	r.t.Helper()
	await(r, "registrations of "+resource, func() int {
		n, err := kubelet.Registrations(resource)
		r.do(err)
		return n
	}, want)
}

// logged waits for so many lines with an event in the daemons' log.
func (r *rig) logged(event string, want int) {
	r.t.Helper()
	await(r, "lines "+event, func() int {
		lines, err := kubelet.Logged(r.log, event)
		r.do(err)
		return len(lines)
	}, want)
}

// onlyOurSockets waits until there are so many sockets beside the kubelet's: one
// for each registration that lives.
func (r *rig) onlyOurSockets(want int) {
	r.t.Helper()
	await(r, "sockets", func() int { return len(r.sockets()) }, want)
}

func (r *rig) sockets() []string {
	names, err := r.kubelet.Sockets()
	r.do(err)
	return names
}

// deleteSockets deletes all sockets but the kubelet's.
func (r *rig) deleteSockets() {
	for _, name := range r.sockets() {
		r.do(os.Remove(filepath.Join(r.kubelet.Dir, name)))
	}
}

// known fails the test where something is wrong, but for a bug that is known to be
// there with one version of Kubernetes: it is named at the end of each run until it
// is mended, and then the test fails until this is taken out.
func (r *rig) known(version, bug, wrong string) {
	r.t.Helper()
	switch {
	case kubelet.Version != version && wrong != "":
		r.t.Errorf("%s:\n%s", bug, wrong)
	case kubelet.Version == version && wrong == "":
		r.t.Errorf("mended, take known out: %s", bug)
	case kubelet.Version == version:
		bugs.Store(bug+" ("+r.t.Name()+")", true)
		r.t.Logf("known bug: %s:\n%s", bug, wrong)
	}
}
