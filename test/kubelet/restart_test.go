package kubelet_test

import (
	"fmt"
	"testing"
	"time"

	"b-com.com/accelerator-device-plugin/internal/sim/simnode"
	"b-com.com/accelerator-device-plugin/test/kubelet"
)

// A hundred times each, because races are lost rarely.
const often = 100

// limit is how long a restart of either side may take until the devices are
// allocatable again.
const limit = time.Second

// busyLimit is how long what waits for other processes, several times over, may take on
// a machine that has other things to do. On one that has not it takes half a second at
// most; where nobody notices it took 30 s.
const busyLimit = 5 * time.Second

// promptly is timed, and fails the test where that took longer than the limit.
func (r *rig) promptly(what string, want amounts) {
	r.t.Helper()
	took := r.advertises(what, want)
	timings.add(what, took)
	if took > limit {
		r.t.Errorf("%s took %v, want at most %v", what, took, limit)
	}
}

// soon is await, for the table, and fails the test where that took longer than the
// limit of a busy machine. Where the kubelet is slow to see that a stream has ended, because it writes its
// checkpoint, it closes, in 1.36 and before, the connection of the registration that has
// followed, with a stream on it or none yet. Then one more registration is needed.
func soon[T any](r *rig, what string, look func() T, want T) {
	r.t.Helper()
	took := await(r, what, look, want)
	timings.add(what, took)
	if took > busyLimit {
		r.t.Errorf("%s took %v, want at most %v", what, took, busyLimit)
	}
}

// The kubelet begins anew from its checkpoint, a hundred times: what pods hold is
// held, everything is offered again within a second, and there is one registration
// for each resource each time.
func TestKubeletRestarts(t *testing.T) {
	t.Parallel()
	b := cardB
	b.AFUID = afuB
	r := newRig(t, kubelet.Settings{}, []simnode.Card{cardA, b}, "--mode=af")
	first, second := r.namespace+"/"+afNameA, r.namespace+"/"+afNameB
	all := amounts{first: {Capacity: 2, Allocatable: 2}, second: {Capacity: 2, Allocatable: 2}}
	r.advertises("started", all)
	one, two := r.admit("one", first, 1), r.admit("two", second, 2)
	for range often {
		r.do(r.kubelet.Restart(t.Context()))
		r.promptly("the kubelet restarts: 2 resources, 2 pods", all)
		r.holds(one, "3b:00.0")
		r.holds(two, "5e:00.0", "5e:00.0-p1")
	}
	r.registrations(first, 1+often)
	r.registrations(second, 1+often)
	r.onlyOurSockets(2)
	r.holds(r.admit("three", first, 1), "3b:00.0-p1")
}

// The daemon ends in good order, or is killed, and another one begins, a hundred
// times in all: what pods hold is held, everything is offered again within a
// second, and no socket is left.
func TestDaemonRestarts(t *testing.T) {
	t.Parallel()
	r := newRig(t, kubelet.Settings{}, []simnode.Card{cardA, cardB})
	r.advertises("started", r.only(4, 4))
	pod := r.admit("job", r.resource, 2)
	for i := range often {
		what, end := "the daemon is ended, another one begins", r.end
		if i%2 == 1 {
			what, end = "the daemon is killed, another one begins", r.kill
		}
		end(r.daemon)
		r.advertises("no daemon", r.only(4, 0))
		r.daemon = r.another()
		r.promptly(what, r.only(4, 4))
		r.holds(pod, "3b:00.0", "3b:00.0-p1")
		r.health(what, pod, map[string]string{"3b:00.0": healthy, "3b:00.0-p1": healthy})
	}
	r.registrations(r.resource, 1+often)
	r.onlyOurSockets(1)
	r.holds(r.admit("next", r.resource, 2), "5e:00.0", "5e:00.0-p1")
}

// A daemon that is replaced so quickly that the kubelet may not yet have seen the
// old one's end. In 1.36 and before, that end takes the new one down with it.
func TestDaemonReplacedAtOnce(t *testing.T) {
	t.Parallel()
	r := newRig(t, kubelet.Settings{}, []simnode.Card{cardA})
	for range often / 4 {
		r.advertises("before", r.only(2, 2))
		r.kill(r.daemon)
		r.daemon = r.another()
		r.do(r.node.Plug(cardB)) // only the new one can tell
		soon(r, "the daemon is killed, another one begins, a card comes", r.advertised, r.only(4, 4))
		r.do(r.node.Unplug(cardB.Address))
	}
}

// again does what makes the daemon register again, and waits until all is
// allocatable.
func (r *rig) again(what string, do func()) {
	r.t.Helper()
	before := r.count()
	do()
	await(r, what+": another registration", func() bool { return r.count() > before }, true)
	// That a port breaks proves that the new stream is heard.
	r.do(r.node.Set(cardA.Address, 1, "errors/errors", broken))
	r.promptly(what+": registered again, and a port breaks", r.only(2, 1))
	r.do(r.node.Set(cardA.Address, 1, "errors/errors", whole))
	r.advertises(what+": it is well again", r.only(2, 2))
}

// A daemon that registers again and again: the kubelet of 1.37 takes a registration
// for the old one where the path of the socket is the same, and is stuck with it.
func TestRegisterAgain(t *testing.T) {
	t.Parallel()
	r := newRig(t, kubelet.Settings{}, []simnode.Card{cardA})
	r.advertises("started", r.only(2, 2))
	for range often {
		r.again("SIGHUP", func() { r.do(r.daemon.Hangup()) })
	}
	r.onlyOurSockets(1)
	// In 1.36 and before, the end of the stream before may undo a registration, which is
	// repeated.
	allowed := map[string]int{"1.36": often / 10}[kubelet.Version]
	if extra := r.count() - 1 - often; extra > allowed {
		t.Errorf("%d more registrations than were asked for, want at most %d", extra, allowed)
	}
}

// The kubelet closes the connection: we register again, later each time.
func TestStreamCut(t *testing.T) {
	t.Parallel()
	r := newRig(t, kubelet.Settings{}, []simnode.Card{cardA})
	r.advertises("started", r.only(2, 2))
	for i := range 3 {
		r.do(r.kubelet.Cut(t.Context(), r.resource))
		what := fmt.Sprintf("the kubelet cuts the stream, time %d", i+1)
		r.timed(what, r.only(2, 2))
		r.registrations(r.resource, 2+i)
	}
	r.holds(r.admit("job", r.resource, 1), "3b:00.0")
}

// The sockets of plugins are deleted, as a kubelet does when it starts, but by
// somebody else.
func TestSocketsDeleted(t *testing.T) {
	t.Parallel()
	r := newRig(t, kubelet.Settings{}, []simnode.Card{cardA})
	r.advertises("started", r.only(2, 2))
	for range 3 {
		r.again("our socket is deleted", r.deleteSockets)
		r.onlyOurSockets(1)
	}
	r.holds(r.admit("job", r.resource, 1), "3b:00.0")
}

// After a reboot nothing runs: pods are admitted anew, and are refused until the
// daemon has come.
func TestReboot(t *testing.T) {
	t.Parallel()
	r := newRig(t, kubelet.Settings{}, []simnode.Card{cardA})
	r.advertises("started", r.only(2, 2))
	pod := r.admit("job", r.resource, 1)
	r.end(r.daemon)
	r.do(r.kubelet.Reboot(t.Context()))
	if err := r.kubelet.Admit(t.Context(), pod); err == nil {
		t.Error("admitted without daemon")
	}
	r.advertises("without daemon", r.only(0, 0))
	r.daemon = r.another()
	r.promptly("reboot: the daemon comes after the kubelet", r.only(2, 2))
	r.do(r.kubelet.Admit(t.Context(), pod))
}
