package inventory_test

import (
	"fmt"
	"testing"

	"b-com.com/accelerator-device-plugin/inventory"
)

// numbered returns a healthy hardware port that has this driver number, and its node's number if numbered is set.
func numbered(n, id int) inventory.Unit {
	u := good(n, id)
	u.NodeNumbers = []string{fmt.Sprintf("245:%d", n)}
	return u
}

// startPorts runs an inventory in mode single with card A, whose two ports have the driver's numbers 4 and 5. The holdings
// are those of card A's first id.
func startPorts(t *testing.T, held ...inventory.Holding) (*rig, *fakeKubelet) {
	d := newFakeKubelet()
	d.held["3b:00.0"] = held
	cfg := withKubelet(d)
	cfg.Policy, cfg.Record = modePolicy("single"), d.record()
	return start(t, cfg, oneCard(numbered(4, 0), numbered(5, 1))), d
}

// A release before 0.2.0 gave a container port 0 of three cards at once. For each of them, the nodes are those of all
// three, because the entry doesn't tell them apart. The resource name has changed since. Port 1 is free, and no container
// has ever held the whole card.
func TestAnotherModeSharedEntry(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r, _ := startPorts(t, inventory.Holding{As: "former-name", Holders: []string{"default/job/main"}, Containers: []string{"u/main"}, Nodes: []string{"dfl-port.10", "dfl-port.12", "dfl-port.4"}})
		r.want("port 0 held", map[string]string{"3b:00.0": "unhealthy[node-changed replaced-in-use]", "3b:00.0-p1": "healthy[]"})
	})
}

// A claim holds port 0. The port's node changed while the claim was prepared, so that the DRA driver's record
// (injected.json) contains both nodes (claims.Registry's nodes are Nodes and Later). The node was then switched to the
// device plugin, in the same mode. Port 1 is free.
func TestAnotherModeClaimWithLaterNodes(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r, _ := startPorts(t, inventory.Holding{As: otherAPI, Holders: []string{"default/job/main"}, OtherAPI: true, Nodes: []string{"dfl-port.0", "245:0", "dfl-port.4", "245:4"}})
		r.want("port 0 held by a claim", map[string]string{"3b:00.0": "unhealthy[held-other-api]", "3b:00.0-p1": "healthy[]"})
	})
}

// Another plugin's holder of an id that looks like ours doesn't withhold the card, and two holdings of one id do.
func TestAnotherModeWhose(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d := newFakeKubelet()
		region := numbered(4, 0)
		region.Whole, region.Nodes = true, []string{"dfl-port.4", "dfl-port.5"}
		cfg := withKubelet(d)
		cfg.Policy = modePolicy("region")
		perhaps := inventory.Holding{As: "other/x", Holders: []string{"a/b/c"}, Perhaps: true}
		ours := inventory.Holding{As: "single", Holders: []string{"default/job/main"}, Nodes: []string{"dfl-port.1", "245:1"}}
		d.set(func() { d.held["3b:00.0-p1"] = []inventory.Holding{perhaps} })
		r := start(t, cfg, oneCard(region))
		r.want("another plugin's", map[string]string{"3b:00.0": "healthy[]", "3b:00.0-p1": "unhealthy[removed-in-use]"})
		d.set(func() { d.held["3b:00.0-p1"] = []inventory.Holding{perhaps, ours} })
		r.after(11e9)
		r.want("both", map[string]string{"3b:00.0": "unhealthy[node-in-use]", "3b:00.0-p1": "unhealthy[removed-in-use held-twice]"})
		d.set(func() { d.held["3b:00.0-p1"] = []inventory.Holding{perhaps} })
		r.after(11e9)
		r.want("another plugin's again", map[string]string{"3b:00.0": "healthy[]", "3b:00.0-p1": "unhealthy[removed-in-use]"})
	})
}

// In the DRA driver, every device has the same name, the driver's. A claim holds a card with two ports; the card has been
// pulled and plugged in again, and the driver starts in mode single.
func TestAnotherModeClaim(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d := newFakeKubelet()
		d.held["3b:00.0"] = []inventory.Holding{{
			As: "accelerator.b-com.com", Holders: []string{"default/job/main"}, Given: &inventory.Device{Family: "dfl"},
			Nodes: []string{"dfl-port.0", "dfl-port.1", "245:0", "245:1"},
		}}
		cfg := withKubelet(d)
		cfg.Policy, cfg.Record = modePolicy("accelerator.b-com.com"), d.record()
		r := start(t, cfg, oneCard(numbered(4, 0), numbered(5, 1)))
		r.want("card held by a claim", map[string]string{"3b:00.0": "unhealthy[node-changed]", "3b:00.0-p1": "unhealthy[node-in-use]"})
	})
}
