package inventory_test

import (
	"fmt"
	"os"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"b-com.com/accelerator-device-plugin/internal/sysfs"
	"b-com.com/accelerator-device-plugin/inventory"
	"b-com.com/accelerator-device-plugin/test/compare"
	"b-com.com/accelerator-device-plugin/test/must"
)

func TestNodeHint(t *testing.T) {
	both := map[string]string{"3b:00.0": "unhealthy[port-ap6]", "0001:5e:00.0": "unhealthy[port-ap6]"}
	for _, test := range []struct {
		name  string
		nodeB int // the number in card B's node name; card A's is 0
		hint  string
		want  map[string]string
	}{
		{"only the node's card is read", 1, "dfl-port.1", map[string]string{"3b:00.0": "healthy[]", "0001:5e:00.0": "unhealthy[port-ap6]"}},
		{"two cards have had the node", 0, "dfl-port.0", both},
		{"an unknown node may belong to any card", 1, "dfl-port.7", both},
	} {
		t.Run(test.name, func(t *testing.T) {
			withCard(t, testConfig, func(t *testing.T, r *rig, f *fakeFamily) {
				r.set(cardB, good(test.nodeB, 0))
				f.set(cardA, good(0, 0, ap6))
				f.set(cardB, good(test.nodeB, 0, ap6))
				r.hintNode(test.hint)
				r.want("hinted", test.want)
			})
		})
	}
}

// However many hints there are, there are only a few readings, and the last one starts after the last hint.
func TestHintsAreMerged(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFakeFamily("dfl")
		r := start(t, testConfig, f)
		release := f.hang(cardA)
		r.hint(cardA)
		for range 10_000 {
			r.Hint(inventory.Hint{Card: cardA, Source: "test", At: time.Now()})
		}
		synctest.Wait()
		f.set(cardA, good(0, 0))
		release()
		synctest.Wait()
		r.want("after the flood", map[string]string{"3b:00.0": "healthy[]"})
		compare.Equal(t, "readings for many hints during one reading", 2, f.reads[cardA])
	})
}

func TestHintsForEndlessCardsAreBounded(t *testing.T) {
	withCard(t, testConfig, func(t *testing.T, r *rig, f *fakeFamily) {
		f.set(cardA, good(0, 0, ap6))
		for i := range 100_000 {
			r.Hint(inventory.Hint{Card: fmt.Sprintf("0000:%02x:%02x.%d", i>>8&0xff, i>>3&0x1f, i&7), Source: "test", At: time.Now()})
		}
		r.Hint(inventory.Hint{Source: "test", At: time.Now()})
		synctest.Wait()
		r.want("after the flood", map[string]string{"3b:00.0": "unhealthy[port-ap6]"})
	})
}

// Device node names are reused, so one card's node may later belong to another.
func TestNodeHintReachesItsNewCard(t *testing.T) {
	host := sysfs.Host{Sys: t.TempDir(), Dev: t.TempDir()}
	for _, err := range []error{
		os.MkdirAll(host.Sys+"/dev/char", 0o755),
		os.Symlink("../../devices/pci0000:00/0000:00:02.0/"+cardB+"/fpga_region/region0/dfl-port.0", host.Sys+"/dev/char/245:0"),
	} {
		must.Succeed(t, err)
	}
	if err := syscall.Mknod(host.Dev+"/dfl-port.0", syscall.S_IFCHR|0o600, 245<<8); err != nil {
		t.Skipf("no device node can be made here: %v", err)
	}
	bubble(t, func(t *testing.T) {
		f := oneCard()
		r := startOn(t, host, testConfig, f)
		f.pull(cardA)
		f.set(cardB, good(0, 0))
		r.hintNode("dfl-port.0")
		r.want("the old card was read, and the new one", map[string]string{"0001:5e:00.0": "healthy[]"})
	})
}

// A card is pulled, and another card gets its device node's name. While both cards are being read, the new card's
// device node is deleted. The hint about the node leads to the old card, and reading the new card may still have found
// the node.
func TestNodeHintWhileTheNodeChangesItsCard(t *testing.T) {
	ofFME := good(1, 0)
	ofFME.ParentNodes = []string{"dfl-fme.0"}
	for _, test := range []struct {
		name       string
		port       inventory.Unit // the new card's
		node       string
		newFirst   bool // the new card's reading is the first to return
		wantSecond int  // readings of the new card
		want       string
	}{
		{"new card first", good(0, 0), "dfl-port.0", true, 2, "unhealthy[node-missing]"},
		{"old card first", good(0, 0), "dfl-port.0", false, 2, "unhealthy[node-missing]"},
		{"node of the FME", ofFME, "dfl-fme.0", false, 2, "unhealthy[node-missing]"},
		{"a node of neither reading", good(1, 0), "dfl-port.0", false, 1, "healthy[]"},
	} {
		runInBubble(t, test.name, func(t *testing.T) {
			f := newFakeFamily("dfl")
			old := good(0, 0)
			old.ParentNodes = []string{"dfl-fme.0"}
			f.set(cardA, old)
			cfg := testConfig
			cfg.ResyncInterval, cfg.HealthInterval, cfg.ReadTimeout = time.Hour, time.Hour, time.Hour
			r := start(t, cfg, f)
			first, second := f.delay(cardA), f.delay(cardB)
			if test.newFirst {
				first, second = second, first
			}
			f.pull(cardA)
			f.set(cardB, test.port)
			r.hint(cardA)
			r.hint(cardB)
			lacking := test.port
			lacking.Conditions = []inventory.Condition{{Reason: inventory.ReasonNodeMissing, Health: inventory.Unhealthy}}
			f.set(cardB, lacking)
			r.hintNode(test.node)
			first()
			synctest.Wait()
			second()
			synctest.Wait()
			r.want("both readings have returned", map[string]string{"0001:5e:00.0": test.want})
			compare.Equal(t, "readings of the new card", test.wantSecond, f.reads[cardB])
		})
	}
}

// A removed card's device node no longer leads to the card, because another card may get its name.
func TestNodeOfACardThatLeft(t *testing.T) {
	withCard(t, testConfig, func(t *testing.T, r *rig, f *fakeFamily) {
		r.pull(cardA)
		before := f.reads[cardA]
		r.hintNode("dfl-port.0")
		compare.Equal(t, "readings of the card that left", 0, f.reads[cardA]-before)
	})
}
