package kubelet_test

import (
	"testing"

	"b-com.com/accelerator-device-plugin/sim/simnode"
)

// The daemon registers exactly once, no matter which comes first: the daemon, the kubelet or the first card. It doesn't
// register as long as there are no devices.
func TestRegistration(t *testing.T) {
	t.Run("the kubelet first", func(t *testing.T) {
		t.Parallel()
		r := newRig(t, []simnode.Card{cardA})
		r.timed("daemon started, 2 ports", r.only(2, 2))
		r.registrations(r.resource, 1)
	})
	t.Run("the daemon first", func(t *testing.T) {
		r := started(t, cardA)
		r.do(r.kubelet.Stop())
		r.end(r.daemon)
		r.daemon = r.startDaemon()
		r.logged("kubelet.absent", 1)
		r.do(r.kubelet.Resume(t.Context()))
		r.advertises("the kubelet has started", r.only(2, 2))
		r.registrations(r.resource, 2)
	})
	t.Run("the first card last", func(t *testing.T) {
		t.Parallel()
		r := newRig(t, nil)
		r.logged("scan.done", 1)
		r.advertises("no card", amounts{})
		r.registrations(r.resource, 0)
		r.do(r.node.Plug(cardA))
		r.timed("first card plugged: the resource is new", r.only(2, 2))
		r.registrations(r.resource, 1)
	})
}
