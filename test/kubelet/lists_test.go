package kubelet_test

import (
	"testing"

	"b-com.com/accelerator-device-plugin/sim/simnode"
)

// The node's status follows every change to the node. The test doesn't run in parallel with others, because its times
// go into the table.
func TestLists(t *testing.T) {
	r := newRig(t, []simnode.Card{cardA})
	r.advertises("started", r.only(2, 2))
	for range 50 {
		r.do(r.node.Set(cardA.Address, 1, "errors/errors", broken))
		r.timed("a port breaks", r.only(2, 1))
		r.do(r.node.Set(cardA.Address, 1, "errors/errors", whole))
		r.timed("a port recovers (no hold)", r.only(2, 2))
		r.do(r.node.Plug(cardB))
		r.timed("a card of 2 ports is plugged", r.only(4, 4))
		r.do(r.node.Unplug(cardB.Address))
		r.timed("a card of 2 ports is pulled", r.only(2, 2))
		r.do(r.node.Unbind(cardA.Address, 0))
		r.timed("a driver is unbound", r.only(2, 1))
		r.do(r.node.Bind(cardA.Address, 0))
		r.timed("a driver is bound", r.only(2, 2))
	}
	r.do(r.node.SetFME(cardA.Address, "errors/catfatal_errors", "0x800"))
	r.advertises("the card's FME breaks: both ports", r.only(2, 0))
	r.do(r.node.SetFME(cardA.Address, "errors/catfatal_errors", whole))
	r.advertises("the card recovers", r.only(2, 2))
	r.do(r.node.Unplug(cardA.Address))
	r.timed("the last card is pulled", r.only(0, 0))
	r.do(r.node.Plug(cardB))
	r.timed("another card is plugged", r.only(2, 2))
	r.registrations(r.resource, 1)
}
