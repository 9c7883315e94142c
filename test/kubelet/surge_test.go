package kubelet_test

import (
	"slices"
	"sync"
	"testing"
	"time"

	"b-com.com/accelerator-device-plugin/internal/sim/simnode"
	"b-com.com/accelerator-device-plugin/test/kubelet"
)

// sample looks at what is advertised until the returned function is called, which
// returns for how long it was so in all.
func (r *rig) sample(so func(amounts) bool) (stop func() time.Duration) {
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
			was, last = so(r.kubelet.Advertised()), now
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
	r.t.Cleanup(func() { stop() }) // of a test that has failed
	return stop
}

// second starts a daemon beside the first one, after so many that found it there (1:
// this is the first), and returns when the kubelet has opened its stream.
func (r *rig) second(number int) *kubelet.Daemon {
	r.t.Helper()
	second := r.another()
	r.logged("socket.twin", number)
	r.opened(r.logs[len(r.logs)-1])
	return second
}

// opened waits until the daemon with this log has sent a list.
func (r *rig) opened(log string) {
	r.t.Helper()
	await(r, "a list sent", func() bool {
		lines, err := kubelet.Lines(log)
		r.do(err)
		return slices.ContainsFunc(lines, func(line map[string]any) bool { return line["event"] == "list.sent" })
	}, true)
}

// less samples for how long less than so many are allocatable.
func (r *rig) less(than int64) (stop func() time.Duration) {
	return r.sample(func(now amounts) bool { return now[r.resource].Allocatable < than })
}

// afterwards waits out the limit: the kubelet may take a moment to see that somebody
// has gone, and how it is until then does not matter.
func (r *rig) afterwards() {
	select {
	case <-time.After(limit):
	case <-r.t.Context().Done():
		r.t.Fatal(r.t.Context().Err())
	}
}

// An upgrade with surge: the new daemon comes, then the old one goes. In 1.37 the
// list never shrinks. In 1.36 and before, the end of the old one's stream takes the
// new one down with it, which registers again.
func TestSurge(t *testing.T) {
	t.Parallel()
	for i := range 6 {
		r := newRig(t, kubelet.Settings{}, []simnode.Card{cardA, cardB})
		r.advertises("one daemon", r.only(4, 4))
		pod := r.admit("job", r.resource, 1)
		less := r.less(4)
		second := r.second(1)
		what := "surge, at once"
		if i%2 == 1 {
			what = "surge, after a second" // as those of a DaemonSet are, or later
			r.afterwards()
		}
		between := r.admit("between", r.resource, 1)
		r.end(r.daemon)
		r.daemon = second
		r.afterwards()
		r.advertises("the old daemon has gone", r.only(4, 4))
		lasted := less()
		timings.add(what+": less than all is allocatable (no time is best)", lasted)
		if allowed := map[string]time.Duration{"1.36": busyLimit}[kubelet.Version]; lasted > allowed {
			t.Errorf("less than all was allocatable for %v, want at most %v", lasted, allowed)
		}
		r.do(r.node.Unplug(cardB.Address))
		r.promptly("surge: the old daemon has gone, a card is pulled", r.only(2, 2))
		r.holds(pod, "3b:00.0")
		r.holds(between, "3b:00.0-p1")
		r.kubelet.Delete(between)
		r.holds(r.admit("next", r.resource, 1), "3b:00.0-p1")
	}
}

// An upgrade whose new daemon does not get as far as to register, and another one that
// does in its place.
func TestSurgeOfOneThatIsStuck(t *testing.T) {
	t.Parallel()
	r := newRig(t, kubelet.Settings{}, []simnode.Card{cardA})
	r.advertises("one daemon", r.only(2, 2))
	less := r.less(2)
	stuck := r.another()
	r.do(stuck.Pause())
	r.afterwards()
	r.registrations(r.resource, 1)
	pod := r.admit("job", r.resource, 1)
	third := r.second(1)
	r.afterwards()
	r.end(r.daemon)
	r.daemon = third
	r.afterwards()
	r.advertises("the old daemon has gone", r.only(2, 2))
	if lasted, allowed := less(), map[string]time.Duration{"1.36": busyLimit}[kubelet.Version]; lasted > allowed {
		t.Errorf("less than all was allocatable for %v, want at most %v", lasted, allowed)
	}
	r.kill(stuck)
	r.do(r.node.Plug(cardB))
	r.promptly("surge: one was stuck, the old daemon has gone, a card comes", r.only(4, 4))
	r.holds(pod, "3b:00.0")
	r.kubelet.Delete(pod)
	r.admit("next", r.resource, 4)
}

// A surge that is undone: the new daemon comes and goes again, as one does that
// crashes; the old one goes on. In 1.36 and before, the kubelet has forgotten the old
// one by then, which finds out by itself.
func TestSurgeUndone(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"ended", "killed"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, kubelet.Settings{}, []simnode.Card{cardA})
			r.advertises("one daemon", r.only(2, 2))
			for i := range 3 { // it crashes again
				second, less := r.second(i+1), r.less(2)
				if name == "ended" {
					r.end(second)
				} else {
					r.kill(second)
				}
				r.afterwards()
				r.advertises("the new daemon has gone", r.only(2, 2))
				lasted := less()
				timings.add("surge undone, the new daemon "+name+": less than all is allocatable (no time is best)", lasted)
				if allowed := map[string]time.Duration{"1.36": busyLimit}[kubelet.Version]; lasted > allowed {
					t.Errorf("less than all was allocatable for %v, want at most %v", lasted, allowed)
				}
				pod := r.admit("job", r.resource, 1)
				r.holds(pod, "3b:00.0")
				r.kubelet.Delete(pod)
				r.do(r.node.Set(cardA.Address, 1, "errors/errors", broken))
				r.advertises("a port breaks", r.only(2, 1))
				r.do(r.node.Set(cardA.Address, 1, "errors/errors", whole))
				r.advertises("it is well again", r.only(2, 2))
			}
		})
	}
}
