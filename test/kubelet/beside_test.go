package kubelet_test

import (
	"testing"

	"b-com.com/accelerator-device-plugin/internal/sim/simnode"
	"b-com.com/accelerator-device-plugin/test/kubelet"
)

// Two daemons live side by side for a minute, and each is asked to register again:
// they leave each other alone.
func TestTwoDaemonsInPeace(t *testing.T) {
	t.Parallel()
	r := newRig(t, kubelet.Settings{}, []simnode.Card{cardA})
	r.advertises("one daemon", r.only(2, 2))
	second := r.second(1)
	for _, who := range []struct {
		name  string
		again func()
		most  int // registrations in all
	}{
		{"neither", func() {}, 2},
		{"the second", func() { r.do(second.Hangup()) }, 3},
		// In 1.36 and before, this hangs up on the second, which comes back.
		{"the first", func() { r.do(r.daemon.Hangup()) }, map[string]int{"1.36": 7, "1.37": 4}[kubelet.Version]},
	} {
		who.again()
		for range 20 {
			r.afterwards()
		}
		if n := r.count(); n > who.most {
			t.Errorf("%d registrations 20 s after %s was asked to register again, want at most %d", n, who.name, who.most)
		}
		r.advertises(who.name, r.only(2, 2))
		pod := r.admit("job", r.resource, 1)
		r.kubelet.Delete(pod)
	}
	r.end(second)
	r.do(r.node.Plug(cardB))
	r.advertises("the second has gone, a card comes", r.only(4, 4))
	r.admit("job", r.resource, 4)
}

// Two daemons tell the same, whichever the kubelet hears last.
func TestTwoDaemons(t *testing.T) {
	t.Parallel()
	r := newRig(t, kubelet.Settings{}, []simnode.Card{cardA})
	r.advertises("one daemon", r.only(2, 2))
	r.second(1)
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
