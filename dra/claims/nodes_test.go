package claims_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp/cmpopts"

	"b-com.com/accelerator-device-plugin/inventory"
	"b-com.com/accelerator-device-plugin/test/compare"
	"b-com.com/accelerator-device-plugin/test/must"
)

// with returns a device with other nodes and numbers: NODE=NUMBER.
func with(d *inventory.Device, nodes ...string) *inventory.Device {
	d.Nodes, d.NodeNumbers = nil, nil
	for _, node := range nodes {
		name, number, _ := strings.Cut(node, "=")
		d.Nodes, d.NodeNumbers = append(d.Nodes, name), append(d.NodeNumbers, number)
	}
	return d
}

// sharing returns a device with a node that several devices have.
func sharing(d *inventory.Device) *inventory.Device {
	d.SharedNodes = []string{"vfio/vfio"}
	return d
}

// Two drivers run on a node during an upgrade, and the new one may have another mode. So they may give different names
// to devices that share a node. The second claim gets its device when the first one is unprepared.
func TestNodeOfAnotherClaim(t *testing.T) {
	for _, tc := range []struct {
		name          string
		first, second *inventory.Device
		want          string // in the error; "": served
	}{
		{"card, then port", with(port("3b:00.0", 0), "dfl-port.0=240:0", "dfl-port.1=240:1"), port("3b:00.0-p1", 1),
			"device pci-0000-3b-00-0-p1 (3b:00.0-p1) of request a: its device node dfl-port.1 is prepared for claim default/one (uid uid-one)"},
		{"port, then card", port("3b:00.0-p1", 1), with(port("3b:00.0", 0), "dfl-port.0=240:0", "dfl-port.1=240:1"), "its device node dfl-port.1 is prepared for claim default/one"},
		{"the same number", port("3b:00.0", 1), with(port("5e:00.0", 2), "other=240:1"), "its device node 240:1 is prepared for claim default/one"},
		{"the same name", port("3b:00.0", 1), with(port("5e:00.0", 2), "dfl-port.1=241:7"), "its device node dfl-port.1 is prepared for claim default/one"},
		{"other nodes", port("3b:00.0", 1), port("5e:00.0", 2), ""},
		{"a shared node", sharing(port("3b:00.0", 1)), sharing(port("5e:00.0", 2)), ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			old := newRig(t, tc.first)
			one, two := claimOf("one", result("a", tc.first.ID)), claimOf("two", result("a", tc.second.ID))
			old.prepare(one)
			next := old.peer()
			next.snapshots = newSnapshots() // of the other mode, without the claims of the old driver
			next.set(tc.second)
			if tc.want != "" {
				next.refuseNow(two, tc.want)
				next.prepare(claimOf("watch", admin(result("a", tc.second.ID))))
				old.unprepare(one)
			}
			next.prepare(two)
		})
	}
}

// Drivers of earlier releases could prepare one node for two claims. Both claims can be unprepared, and no third claim
// gets the node.
func TestFileWithNodeOfTwoClaims(t *testing.T) {
	r, one, two := twoCards(t)
	r.prepare(one, two)
	r.writeFile(strings.NewReplacer("dfl-port.1", "dfl-port.0", "240:1", "240:0").Replace(r.file()))
	r.holds("3b:00.0 dfl-port.0 240:0", "5e:00.0 dfl-port.0 240:0")
	r.set(port("3b:00.0", 0), port("5e:00.0", 1), port("af:00.0", 0))
	three := claimOf("three", result("a", "af:00.0"))
	r.refuseNow(three, "its device node dfl-port.0 is prepared for claim default/one")
	r.unprepare(one)
	r.refuseNow(three, "its device node dfl-port.0 is prepared for claim default/two")
	r.unprepare(two)
	r.prepare(three)
}

// A card that is pulled and plugged in again may have other nodes. A container that restarts gets these nodes from the
// spec. So they are recorded, and the next driver reserves them as well after the card is pulled again.
func TestNodesOfRestartedContainer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, port("3b:00.0", 0))
		one, two := claimOf("one", result("a", "3b:00.0")), claimOf("two", result("a", "5e:00.0"))
		r.prepare(one)
		stop := r.start()
		r.set(tombstone("3b:00.0", "removed-in-use"))
		synctest.Wait()
		r.added()
		r.set(sick(port("3b:00.0", 4), "node-changed"))
		synctest.Wait()
		r.injects(devicesOf(one, "dfl-port.4")...)
		r.holds("3b:00.0 dfl-port.0 240:0 later dfl-port.4 240:4")
		if !r.added() {
			t.Error("Added: found no element, want one: the inventory must reserve the nodes")
		}
		if !strings.Contains(r.file(), `"version": 1`) || strings.Contains(r.file(), "ater") {
			t.Errorf("file: found %s, want one that an older driver can read", r.file())
		}
		file := r.file()
		time.Sleep(time.Minute)
		compare.Equal(t, "file", file, r.file())
		r.prepare(one) // for another pod
		stop()

		next := *r
		next.open()
		next.set(tombstone("3b:00.0", "removed-in-use"), port("5e:00.0", 4), port("af:00.0", 0))
		next.start()
		synctest.Wait()
		next.holds("3b:00.0 dfl-port.0 240:0 later dfl-port.4 240:4")
		next.injects()
		next.refuseNow(two, "its device node dfl-port.4 is prepared for claim default/one")
		next.refuseNow(claimOf("three", result("a", "af:00.0")), "its device node dfl-port.0 is prepared for claim default/one")
		next.unprepare(one)
		next.prepare(two)
		next.holds("5e:00.0 dfl-port.4 240:4")
	})
}

// Prepare also records new nodes, without Run.
func TestNodesOfNextPod(t *testing.T) {
	r := newRig(t, port("3b:00.0", 0))
	one, watch := claimOf("one", result("a", "3b:00.0")), claimOf("watch", admin(result("a", "3b:00.0")))
	r.prepare(one, watch)
	r.set(sick(port("3b:00.0", 4), "node-changed"))
	r.prepare(one, watch)
	r.injects(append(devicesOf(one, "dfl-port.4"), devicesOf(watch, "dfl-port.4")...)...)
	r.holds("3b:00.0 dfl-port.0 240:0 later dfl-port.4 240:4")
	r.boot = "second" // after a reboot, only Prepare gives nodes
	r.open()
	r.set(port("3b:00.0", 4))
	r.holds("3b:00.0")
	r.prepare(one)
	r.holds("3b:00.0 dfl-port.4 240:4")
}

// The spec never gives a container a node that is in the record of another claim.
func TestNewNodeOfAnotherClaim(t *testing.T) {
	r := newRig(t, port("3b:00.0", 0), port("3b:00.0-p1", 1))
	one, two := claimOf("one", result("a", "3b:00.0")), claimOf("two", result("a", "3b:00.0-p1"))
	r.prepare(one, two)
	r.set(with(port("3b:00.0", 0), "dfl-port.0=240:0", "dfl-port.1=240:1")) // in another mode: the whole card
	r.refuseNow(one, "of request a: its device node dfl-port.1 is prepared for claim default/two")
	r.injects()
	r.holds("3b:00.0 dfl-port.0 240:0", "3b:00.0-p1 dfl-port.1 240:1")
	r.unprepare(two)
	r.prepare(one)
	r.injects(devicesOf(one, "dfl-port.0")[0], devicesOf(one, "dfl-port.1")[0])
}

// New nodes are in the spec only after they were recorded.
func TestNodesCannotBeRecorded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, one, two := twoCards(t)
		r.prepare(one, two)
		r.start()
		obstacle := filepath.Join(r.dir, "claims.json.new")
		must.Succeed(t, os.MkdirAll(obstacle+"/x", 0o700)) // not even root can overwrite it
		r.set(sick(port("3b:00.0", 4), "node-changed"), port("5e:00.0", 1))
		synctest.Wait()
		r.injects(devicesOf(two, "dfl-port.1")...)
		r.holds("3b:00.0 dfl-port.0 240:0", "5e:00.0 dfl-port.1 240:1")
		compare.Error(t, "Ready", "claims.json", r.Ready())
		must.Succeed(t, os.RemoveAll(obstacle))
		time.Sleep(10 * time.Second)
		synctest.Wait()
		r.injects(append(devicesOf(one, "dfl-port.4"), devicesOf(two, "dfl-port.1")...)...)
		compare.NoError(t, "Ready", r.Ready())
	})
}

// A card that gets new nodes again and again does not fill the disk. In the end, the device is withheld.
func TestTooManyNodes(t *testing.T) {
	r := newRig(t, port("3b:00.0", 0))
	c := claimOf("one", result("a", "3b:00.0"))
	r.prepare(c)
	served := 0
	for i := range 300 {
		r.set(sick(port("3b:00.0", i), "node-changed"))
		got := r.Prepare(t.Context(), c)
		if got.Err == nil {
			served++
			continue
		}
		if want := "has had 256 other device nodes while the claim was prepared: delete the pods of the claim"; !strings.Contains(got.Err.Error(), want) {
			t.Fatalf("error %v, want %s", got.Err, want)
		}
		r.injects()
	}
	compare.Equal(t, "devices with other nodes served", 129, served) // each device has a name and a number
	r.set(sick(port("3b:00.0", 100), "node-changed"))                // which is recorded
	r.prepare(c)
	r.injects(devicesOf(c, "dfl-port.100")...)
}

// The nodes of prepared claims are remembered for a device plugin before a container can get them. If the nodes of a
// claim cannot be remembered, the claim is refused, but it can be unprepared. A prepared claim never gets nodes that
// cannot be remembered.
func TestClaimed(t *testing.T) {
	r := newRig(t, port("3b:00.0", 0), port("5e:00.0", 1))
	knows := func(want map[string][]string) {
		t.Helper()
		compare.Values(t, "remembered nodes", want, r.claimed, cmpopts.EquateEmpty())
	}
	one, two := claimOf("one", result("a", "3b:00.0")), claimOf("two", result("a", "5e:00.0"))
	r.prepare(one)
	knows(map[string][]string{"3b:00.0": {"dfl-port.0", "240:0"}})
	r.prepare(claimOf("watch", admin(result("a", "5e:00.0"))))
	knows(map[string][]string{"3b:00.0": {"dfl-port.0", "240:0"}})
	r.set(with(port("3b:00.0", 0), "dfl-port.7=240:7"), port("5e:00.0", 1))
	r.unclaimed = errors.New("the disk is full")
	r.refuseNow(two, "the disk is full")
	r.injects(append(devicesOf(two, "dfl-port.1"), "uid-watch-a-pci-0000-5e-00-0 dfl-port.1")...)
	r.unclaimed = nil
	r.prepare(two)
	knows(map[string][]string{"3b:00.0": {"dfl-port.0", "240:0", "dfl-port.7", "240:7"}, "5e:00.0": {"dfl-port.1", "240:1"}})
	r.unclaimed = errors.New("the disk is full")
	r.unprepare(one, two)
	r.unclaimed = nil
	r.restart()
	r.prepare(one)
	knows(map[string][]string{"3b:00.0": {"dfl-port.7", "240:7"}})
	r.unprepare(one) // the driver may exit right after that
	knows(nil)
}
