package kubelet_test

import (
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"b-com.com/accelerator-device-plugin/internal/simnode"
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

// second starts a daemon beside the first one, and returns when the kubelet has
// opened its stream.
func (r *rig) second() *kubelet.Daemon {
	r.t.Helper()
	second := r.another()
	r.logged("socket.twin", 1)
	r.logged("list.sent", 2)
	return second
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
	for range 5 {
		r := newRig(t, kubelet.Settings{}, []simnode.Card{cardA, cardB})
		r.advertises("one daemon", r.only(4, 4))
		pod := r.admit("job", r.resource, 1)
		less := r.less(4)
		second := r.second()
		r.end(r.daemon)
		r.daemon = second
		r.afterwards()
		lasted := less()
		timings.add("surge: less than all is allocatable (no time is best)", lasted)
		if allowed := map[string]time.Duration{"1.36": limit}[kubelet.Version]; lasted > allowed {
			t.Errorf("less than all was allocatable for %v, want at most %v", lasted, allowed)
		}
		r.do(r.node.Unplug(cardB.Address))
		r.promptly("surge: the old daemon has gone, a card is pulled", r.only(2, 2))
		r.holds(pod, "3b:00.0")
		r.holds(r.admit("next", r.resource, 1), "3b:00.0-p1")
	}
}

// Two daemons tell the same, whichever the kubelet hears last.
func TestTwoDaemons(t *testing.T) {
	t.Parallel()
	r := newRig(t, kubelet.Settings{}, []simnode.Card{cardA})
	r.advertises("one daemon", r.only(2, 2))
	r.second()
	pod := r.admit("job", r.resource, 1)
	for range 10 {
		r.do(r.node.Plug(cardB))
		r.timed("two daemons: a card of 2 ports is plugged", r.only(4, 4))
		r.do(r.node.Unplug(cardB.Address))
		r.timed("two daemons: a card of 2 ports is pulled", r.only(2, 2))
	}
	r.do(r.node.Unplug(cardA.Address))
	r.advertises("a card that is held is pulled", r.only(1, 0))
	r.health("a card that is held is pulled", pod, map[string]string{"3b:00.0": unhealthy})
}

// A surge that is undone: the new daemon comes and goes again, as one does that
// crashes; the old one goes on.
func TestSurgeUndone(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"ended", "killed"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, kubelet.Settings{}, []simnode.Card{cardA})
			r.advertises("one daemon", r.only(2, 2))
			second := r.second()
			if name == "ended" {
				r.end(second)
			} else {
				r.kill(second)
			}
			r.afterwards()
			got, err := amounts(r.kubelet.Advertised()), r.kubelet.Admit(t.Context(), kubelet.NewPod("job", r.resource, 1))
			wrong := cmp.Diff(r.only(2, 2), got)
			if err != nil {
				wrong += "a pod is refused: " + err.Error()
			}
			r.known("1.36", "the old daemon is not heard any more when a second one has come and gone", wrong)
		})
	}
}
