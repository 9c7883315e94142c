package kubelet_test

import (
	"testing"

	"b-com.com/accelerator-device-plugin/test/kubelet"
)

// Two daemons run side by side for a minute, and each of them is made to register again. This must not cause an endless
// series of registrations.
func TestTwoDaemonsSideBySide(t *testing.T) {
	r := started(t, cardA)
	second := r.startSecond(1)
	for _, tc := range []struct {
		name       string
		reregister func()
		most       int // maximum number of registrations so far
	}{
		{"neither", func() {}, 2},
		{"the second", func() { r.do(second.Hangup()) }, 3},
		// Up to 1.36, this closes the connection to the second daemon, which then registers again.
		{"the first", func() { r.do(r.daemon.Hangup()) }, map[string]int{"1.36": 7, "1.37": 4}[kubelet.Version]},
	} {
		tc.reregister()
		for range 20 {
			r.waitLimit()
		}
		if n := r.count(); n > tc.most {
			t.Errorf("%d registrations 20 s after SIGHUP to %s, want at most %d", n, tc.name, tc.most)
		}
		r.advertises(tc.name, r.only(2, 2))
		pod := r.admit("job", r.resource, 1)
		r.kubelet.Delete(pod)
	}
	r.end(second)
	r.do(r.node.Plug(cardB))
	r.advertises("the second has ended, a card is plugged", r.only(4, 4))
	r.admit("job", r.resource, 4)
}
