package deviceplugin_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"b-com.com/accelerator-device-plugin/sim/simkubelet"
	"b-com.com/accelerator-device-plugin/sim/simnode"
	"b-com.com/accelerator-device-plugin/test/cmdtest"
	"b-com.com/accelerator-device-plugin/test/must"
	"b-com.com/accelerator-device-plugin/test/patient"
)

// peer returns another daemon on the same node with the same pods. It has its own kubelet, and hasn't been started yet.
func (d *testDaemon) peer() *testDaemon {
	d.t.Helper()
	peer := *d
	peer.cfg.KubeletDir = filepath.Join(cmdtest.ShortDir(d.t), "kubelet")
	peer.startKubelet()
	d.pods.Join(d.kubelet)
	d.t.Cleanup(func() { peer.kubelet.Stop() })
	return &peer
}

// lists returns all resources' latest lists.
func (d *testDaemon) lists() map[string][]simkubelet.Device {
	d.t.Helper()
	lists := must.Value(d.kubelet.AwaitLists(d.t.Context(), func(map[string]simkubelet.List) bool { return true }))(d.t)
	devices := map[string][]simkubelet.Device{}
	for resource, list := range lists {
		devices[resource] = list.Devices
	}
	return devices
}

// alike compares a device in two daemons on the same node. The health may differ. A daemon that was started later
// doesn't know the NUMA node of a device that has been removed.
var alike = cmp.Comparer(func(a, b simkubelet.Device) bool {
	return a.ID == b.ID && (a.NUMANode == b.NUMANode || !a.Healthy || !b.Healthy)
})

// awaitAlike waits until all daemons have the same resources, with the same devices in the same order.
func awaitAlike(when string, daemons ...*testDaemon) {
	d := daemons[0]
	d.t.Helper()
	patient.Await(d.t, when, func() error {
		for _, other := range daemons[1:] {
			if diff := cmp.Diff(d.lists(), other.lists(), alike); diff != "" {
				return fmt.Errorf("the lists of daemons on one node differ (-first +other):\n%s", diff)
			}
		}
		return nil
	})
}

// Whatever changes, two daemons on the same node have the same lists once the changes stop. So does a daemon that
// starts afterwards.
func TestPeers(t *testing.T) {
	for _, mode := range []string{"single", "af", "region", "regiondevel"} {
		for seed := range uint64(*histories) {
			t.Run(fmt.Sprintf("%s, seed %d", mode, seed), func(t *testing.T) {
				t.Parallel()
				d := inMode(t, mode, nil)
				other := d.peer()
				other.run()
				n := newChurn(d, rand.New(rand.NewPCG(seed, 2)))
				for round := range 3 {
					for range 30 {
						n.turn()
					}
					when := fmt.Sprint("round ", round)
					awaitAlike(when, d, other)
					late := d.peer()
					late.run()
					awaitAlike(when+", one that came later", d, other, late)
					if len(n.held) > 0 { // otherwise the next question comes with the next resync
						d.awaitAsked()
						awaitAlike(when+", asked again who holds what", d, other, late)
					}
					d.do(late.stop())
				}
			})
		}
	}
}

// churn makes random changes to a node.
type churn struct {
	d      *testDaemon
	random *rand.Rand
	slots  []string
	in     map[string]simnode.Card
	pods   int
	held   []string
}

func newChurn(d *testDaemon, random *rand.Rand) *churn {
	return &churn{d: d, random: random, in: map[string]simnode.Card{},
		slots: []string{"0000:18:00.0", "0000:3b:00.0", "0000:5e:00.0", "0000:af:00.0"}}
}

func (n *churn) turn() {
	address := n.slots[n.random.IntN(len(n.slots))]
	card, in := n.in[address]
	turn := n.random.IntN(8)
	switch {
	case turn == 0:
		n.hold()
	case turn == 1 && len(n.held) > 0:
		i := n.random.IntN(len(n.held))
		n.d.pods.Release("default", n.held[i])
		n.held = slices.Delete(n.held, i, i+1)
	case !in:
		card = []simnode.Card{cardA, cardB}[n.random.IntN(2)]
		card.Address, card.Ports = address, 1+n.random.IntN(2)
		card.AFUID = n.afu()
		n.d.do(n.d.node.Plug(card))
		n.in[address] = card
	case turn < 4:
		n.d.do(n.d.node.Unplug(address))
		delete(n.in, address)
	default:
		n.d.do(n.d.node.Reprogram(address, n.random.IntN(card.Ports), n.afu()))
	}
}

func (n *churn) afu() string { return []string{cardA.AFUID, cardB.AFUID}[n.random.IntN(2)] }

// hold makes a pod hold an advertised device.
func (n *churn) hold() {
	lists := n.d.lists()
	for _, resource := range slices.Sorted(maps.Keys(lists)) {
		devices := slices.DeleteFunc(slices.Clone(lists[resource]), func(d simkubelet.Device) bool { return !d.Healthy })
		if len(devices) == 0 || n.random.IntN(2) == 0 {
			continue
		}
		n.pods++
		pod := fmt.Sprint("pod", n.pods)
		n.d.pods.Hold("default", pod, "main", resource, devices[n.random.IntN(len(devices))].ID)
		n.held = append(n.held, pod)
		return
	}
}
