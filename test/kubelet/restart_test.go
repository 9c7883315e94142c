package kubelet_test

import (
	"fmt"
	"testing"
	"time"

	"b-com.com/accelerator-device-plugin/sim/simnode"
	"b-com.com/accelerator-device-plugin/test/kubelet"
)

// repeats is how often a test is repeated, because a race condition may show up only rarely.
const repeats = 100

// limit is the maximum time from when either side restarts until the devices are allocatable again.
const limit = time.Second

// busyLimit is the maximum time, on a busy machine, for sequences that wait for other processes several times. On an
// idle machine, they take at most half a second. With the failure that the tests look for (nothing notices that a
// stream has ended), they took 30 s.
const busyLimit = 5 * time.Second

// withinLimit is like timed, but the test fails if it takes longer than limit.
func (r *rig) withinLimit(name string, want amounts) {
	r.t.Helper()
	took := r.advertises(name, want)
	timings.add(name, took)
	if took > limit {
		r.t.Errorf("%s took %v, want at most %v", name, took, limit)
	}
}

// withinBusyLimit is like await, and adds the time to the table. The test fails if it takes longer than busyLimit. A
// kubelet up to 1.36 may handle the end of a stream late, because it is writing its checkpoint. It then closes the
// connection of the next registration, whether or not that registration's stream is already open, and one more
// registration is needed.
func withinBusyLimit[T any](r *rig, name string, look func() T, want T) {
	r.t.Helper()
	took := await(r, name, look, want)
	timings.add(name, took)
	if took > busyLimit {
		r.t.Errorf("%s took %v, want at most %v", name, took, busyLimit)
	}
}

// The kubelet restarts from its checkpoint a hundred times. Pods keep their devices, all devices are allocatable again
// within a second, and each restart causes one registration per resource.
func TestKubeletRestarts(t *testing.T) {
	t.Parallel()
	b := cardB
	b.AFUID = afuB
	r := newRig(t, []simnode.Card{cardA, b}, "--mode=af")
	first, second := r.namespace+"/"+afNameA, r.namespace+"/"+afNameB
	all := amounts{first: {Capacity: 2, Allocatable: 2}, second: {Capacity: 2, Allocatable: 2}}
	r.advertises("started", all)
	one, two := r.admit("one", first, 1), r.admit("two", second, 2)
	for range repeats {
		r.do(r.kubelet.Restart(t.Context()))
		r.withinLimit("the kubelet restarts: 2 resources, 2 pods", all)
		r.holds(one, "3b:00.0")
		r.holds(two, "5e:00.0", "5e:00.0-p1")
	}
	r.registrations(first, 1+repeats)
	r.registrations(second, 1+repeats)
	r.awaitSockets(2)
	r.holds(r.admit("three", first, 1), "3b:00.0-p1")
}

// The daemon is terminated or killed, and another one is started, a hundred times in total. Pods keep their devices,
// all devices are allocatable again within a second, and no old sockets are left behind.
func TestDaemonRestarts(t *testing.T) {
	r := started(t, cardA, cardB)
	pod := r.admit("job", r.resource, 2)
	for i := range repeats {
		name, end := "the daemon is terminated, another one starts", r.end
		if i%2 == 1 {
			name, end = "the daemon is killed, another one starts", r.kill
		}
		end(r.daemon)
		r.advertises("no daemon", r.only(4, 0))
		r.daemon = r.startDaemon()
		r.withinLimit(name, r.only(4, 4))
		r.holds(pod, "3b:00.0", "3b:00.0-p1")
		r.health(name, pod, map[string]string{"3b:00.0": healthy, "3b:00.0-p1": healthy})
	}
	r.registrations(r.resource, 1+repeats)
	r.awaitSockets(1)
	r.holds(r.admit("next", r.resource, 2), "5e:00.0", "5e:00.0-p1")
}

// A daemon is replaced so quickly that the kubelet may not have handled the end of the old one's stream yet. Up to
// 1.36, that end also closes the connection to the new daemon.
func TestDaemonReplacedAtOnce(t *testing.T) {
	t.Parallel()
	r := newRig(t, []simnode.Card{cardA})
	for range repeats / 4 {
		r.advertises("before", r.only(2, 2))
		r.kill(r.daemon)
		r.daemon = r.startDaemon()
		r.do(r.node.Plug(cardB)) // only the new daemon can list this card
		withinBusyLimit(r, "the daemon is killed, another one starts, a card is plugged", r.advertised, r.only(4, 4))
		r.do(r.node.Unplug(cardB.Address))
	}
}

// reregister calls do, which makes the daemon register again, and waits until all devices are allocatable.
func (r *rig) reregister(name string, do func()) {
	r.t.Helper()
	before := r.count()
	do()
	await(r, name+": another registration", func() bool { return r.count() > before }, true)
	// The change to a port's health shows that the kubelet is using the new stream.
	r.do(r.node.Set(cardA.Address, 1, "errors/errors", broken))
	r.withinLimit(name+": registered again, and a port breaks", r.only(2, 1))
	r.do(r.node.Set(cardA.Address, 1, "errors/errors", whole))
	r.advertises(name+": the port recovers", r.only(2, 2))
}

// A daemon registers again many times. Kubelet 1.37 ignores a registration whose socket has the same path as the old
// one, and keeps the old connection.
func TestRegisterAgain(t *testing.T) {
	r := started(t, cardA)
	for range repeats {
		r.reregister("SIGHUP", func() { r.do(r.daemon.Hangup()) })
	}
	r.awaitSockets(1)
	// Up to 1.36, the end of the old stream may remove a new registration, which is then repeated.
	allowed := map[string]int{"1.36": repeats / 10}[kubelet.Version]
	if extra := r.count() - 1 - repeats; extra > allowed {
		t.Errorf("%d more registrations than SIGHUPs, want at most %d", extra, allowed)
	}
}

// When the kubelet closes the connection, the daemon registers again, each time after a longer delay.
func TestStreamCut(t *testing.T) {
	r := started(t, cardA)
	for i := range 3 {
		r.do(r.kubelet.Cut(t.Context(), r.resource))
		name := fmt.Sprintf("the kubelet closes the connection, time %d", i+1)
		r.timed(name, r.only(2, 2))
		r.registrations(r.resource, 2+i)
	}
	r.holds(r.admit("job", r.resource, 1), "3b:00.0")
}

// Another process, rather than a kubelet that is starting, deletes the plugins' sockets.
func TestSocketsDeleted(t *testing.T) {
	r := started(t, cardA)
	for range 3 {
		r.reregister("our socket is deleted", r.deleteSockets)
		r.awaitSockets(1)
	}
	r.holds(r.admit("job", r.resource, 1), "3b:00.0")
}
