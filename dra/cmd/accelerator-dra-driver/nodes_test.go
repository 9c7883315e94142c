package main

import (
	"strings"
	"testing"

	"b-com.com/accelerator-device-plugin/offer/draname"
	"b-com.com/accelerator-device-plugin/sim/simnode"
	"b-com.com/accelerator-device-plugin/test/must"
	"b-com.com/accelerator-device-plugin/test/patient"
)

// A container that restarts after its card has returned with another node gets the new node. Then the card leaves
// again, and the driver is restarted. No other card is advertised with this node, because the container may have it
// open.
func TestNodeOfRestartedContainer(t *testing.T) {
	const second, third = "0000:5e:00.0", "0000:af:00.0"
	r := newRig(t)
	board := must.Value(simnode.BoardNamed("pac-a10"))(t)
	plugIn := func(address string) {
		t.Helper()
		must.Succeed(t, r.node.PlugBoard(board, address))
	}
	stop := r.run()
	plugIn(card) // dfl-port.0
	r.published("plugged", device)
	claim := r.claim("first")
	r.given(claim)
	must.Succeed(t, r.node.Unplug(card))
	r.published("removed", device+":removed-in-use:NoExecute")
	plugIn(second) // dfl-port.0
	plugIn(card)   // dfl-port.1
	patient.Until(r, "CDI device with the new node", func() bool {
		return strings.Contains(strings.Join(r.spec()["uid-first-card-"+device], " "), "/dev/dfl-port.1")
	})
	const changed, inUse, removed = ":node-changed:NoExecute", ":node-in-use:NoSchedule", ":removed-in-use:NoExecute"
	r.published("with another node", device+changed, draname.Device("5e:00.0")+inUse)
	must.Succeed(t, r.node.Unplug(card))
	r.published("removed again", device+removed, draname.Device("5e:00.0")+inUse)
	stop()
	r.run()
	plugIn(third) // dfl-port.1
	r.published("third card", device+removed, draname.Device("5e:00.0")+inUse, draname.Device("af:00.0")+inUse)
	r.unprepare(claim)
	r.published("unprepared", draname.Device("5e:00.0"), draname.Device("af:00.0"))
}
