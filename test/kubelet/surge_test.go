package kubelet_test

import (
	"slices"
	"sync"
	"testing"
	"time"

	"b-com.com/accelerator-device-plugin/sim/simnode"
	"b-com.com/accelerator-device-plugin/test/kubelet"
)

// sample samples the advertised amounts every 0.2 ms until stop is called. stop returns for how long in total holds
// returned true.
func (r *rig) sample(holds func(amounts) bool) (stop func() time.Duration) {
	end, total := make(chan struct{}), make(chan time.Duration)
	go func() {
		var lasted time.Duration
		tick := time.NewTicker(200 * time.Microsecond)
		defer tick.Stop()
		was, last := false, time.Now()
		for {
			now := time.Now()
			if was {
				lasted += now.Sub(last)
			}
			was, last = holds(r.kubelet.Advertised()), now
			select {
			case <-tick.C:
			case <-end:
				total <- lasted
				return
			}
		}
	}()
	stop = sync.OnceValue(func() time.Duration {
		close(end)
		return <-total
	})
	r.t.Cleanup(func() { stop() }) // in case the test has failed before calling stop
	return stop
}

// startSecond starts a daemon next to the first one, and waits until the kubelet has opened its stream. number counts
// the daemons started this way, from 1.
func (r *rig) startSecond(number int) *kubelet.Daemon {
	r.t.Helper()
	second := r.startDaemon()
	r.logged("socket.twin", number)
	r.awaitListSent(r.logs[len(r.logs)-1])
	return second
}

// awaitListSent waits until the daemon with the given log has sent a list.
func (r *rig) awaitListSent(log string) {
	r.t.Helper()
	await(r, "a list sent", func() bool {
		lines, err := kubelet.Lines(log)
		r.do(err)
		return slices.ContainsFunc(lines, func(line map[string]any) bool { return line["event"] == "list.sent" })
	}, true)
}

// sampleBelow measures for how long fewer than want devices are allocatable.
func (r *rig) sampleBelow(want int64) (stop func() time.Duration) {
	return r.sample(func(now amounts) bool { return now[r.resource].Allocatable < want })
}

// waitLimit waits for limit, which is how long the kubelet may take to handle the end of a daemon. Its state isn't
// checked during that time.
func (r *rig) waitLimit() {
	select {
	case <-time.After(limit):
	case <-r.t.Context().Done():
		r.t.Fatal(r.t.Context().Err())
	}
}

// In an upgrade with surge, the new daemon starts before the old one ends. In 1.37, all devices stay allocatable. Up to
// 1.36, the end of the old daemon's stream also closes the connection to the new one, which registers again.
func TestSurge(t *testing.T) {
	t.Parallel()
	for i := range 6 {
		r := newRig(t, []simnode.Card{cardA, cardB})
		r.advertises("one daemon", r.only(4, 4))
		pod := r.admit("job", r.resource, 1)
		less := r.sampleBelow(4)
		second := r.startSecond(1)
		name := "surge, at once"
		if i%2 == 1 {
			name = "surge, after a second" // a DaemonSet takes at least this long
			r.waitLimit()
		}
		between := r.admit("between", r.resource, 1)
		r.end(r.daemon)
		r.daemon = second
		r.waitLimit()
		r.advertises("the old daemon has ended", r.only(4, 4))
		lasted := less()
		timings.add(name+": not all devices are allocatable (0 is best)", lasted)
		if allowed := map[string]time.Duration{"1.36": busyLimit}[kubelet.Version]; lasted > allowed {
			t.Errorf("not all devices were allocatable for %v, want at most %v", lasted, allowed)
		}
		r.do(r.node.Unplug(cardB.Address))
		r.withinLimit("surge: the old daemon has ended, a card is pulled", r.only(2, 2))
		r.holds(pod, "3b:00.0")
		r.holds(between, "3b:00.0-p1")
		r.kubelet.Delete(between)
		r.holds(r.admit("next", r.resource, 1), "3b:00.0-p1")
	}
}

// In this upgrade, the new daemon gets stuck before it registers. A third daemon replaces it.
func TestSurgeStuck(t *testing.T) {
	r := started(t, cardA)
	less := r.sampleBelow(2)
	stuck := r.startDaemon()
	r.do(stuck.Pause())
	r.waitLimit()
	r.registrations(r.resource, 1)
	pod := r.admit("job", r.resource, 1)
	third := r.startSecond(1)
	r.waitLimit()
	r.end(r.daemon)
	r.daemon = third
	r.waitLimit()
	r.advertises("the old daemon has ended", r.only(2, 2))
	if lasted, allowed := less(), map[string]time.Duration{"1.36": busyLimit}[kubelet.Version]; lasted > allowed {
		t.Errorf("not all devices were allocatable for %v, want at most %v", lasted, allowed)
	}
	r.kill(stuck)
	r.do(r.node.Plug(cardB))
	r.withinLimit("surge: one was stuck, the old daemon has ended, a card is plugged", r.only(4, 4))
	r.holds(pod, "3b:00.0")
	r.kubelet.Delete(pod)
	r.admit("next", r.resource, 4)
}

// A surge is reverted: the new daemon starts and ends again, as if it had crashed, and the old one keeps running. Up to
// 1.36, the kubelet has dropped the old daemon by then, which the old daemon detects by itself.
func TestSurgeReverted(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"ended", "killed"} {
		t.Run(name, func(t *testing.T) {
			r := started(t, cardA)
			for i := range 3 { // several crashes
				second, less := r.startSecond(i+1), r.sampleBelow(2)
				if name == "ended" {
					r.end(second)
				} else {
					r.kill(second)
				}
				r.waitLimit()
				r.advertises("the new daemon has ended", r.only(2, 2))
				lasted := less()
				timings.add("surge reverted, the new daemon "+name+": not all devices are allocatable (0 is best)", lasted)
				if allowed := map[string]time.Duration{"1.36": busyLimit}[kubelet.Version]; lasted > allowed {
					t.Errorf("not all devices were allocatable for %v, want at most %v", lasted, allowed)
				}
				pod := r.admit("job", r.resource, 1)
				r.holds(pod, "3b:00.0")
				r.kubelet.Delete(pod)
				r.do(r.node.Set(cardA.Address, 1, "errors/errors", broken))
				r.advertises("a port breaks", r.only(2, 1))
				r.do(r.node.Set(cardA.Address, 1, "errors/errors", whole))
				r.advertises("the port recovers", r.only(2, 2))
			}
		})
	}
}
