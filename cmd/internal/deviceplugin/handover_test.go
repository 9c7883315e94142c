package deviceplugin_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"

	"b-com.com/accelerator-device-plugin/daemon"
	"b-com.com/accelerator-device-plugin/daemon/config"
	"b-com.com/accelerator-device-plugin/internal/metrics"
	"b-com.com/accelerator-device-plugin/internal/sysfs"
	"b-com.com/accelerator-device-plugin/inventory"
	"b-com.com/accelerator-device-plugin/kubelet/checkpoint"
	"b-com.com/accelerator-device-plugin/kubelet/holders"
	"b-com.com/accelerator-device-plugin/kubelet/podresources"
	"b-com.com/accelerator-device-plugin/offer"
	"b-com.com/accelerator-device-plugin/offer/draname"
	"b-com.com/accelerator-device-plugin/sim/simnode"
)

// twoAPIs is a node on which pods get devices through either API. Its methods are called by one goroutine, except
// report and check.
type twoAPIs struct {
	*testing.T
	random *rand.Rand
	node   *simnode.Node
	cfg    config.Config
	state  chan struct{} // has an element while a goroutine uses one of the following fields
	delays *rand.Rand

	pods    map[string]heldPod // by name
	knows   time.Time          // when the kubelet knows its pods again
	started time.Time          // the start of the kubelet
	memory  map[string]heldPod // the pods in the memory of its device manager, some of which have ended
	file    checkpoint.Record  // its checkpoint
	next    int                // number of the next pod

	dra         bool // the API of the running daemon
	allocations *holders.Allocations
	inv         *inventory.Inventory
	stop        func()
}

type heldPod struct {
	dra   bool // the device belongs to a claim
	id    string
	nodes []string // names and numbers
}

const ownPod = "accelerator-x7k2p"

var ownKey = map[bool]string{false: testResource, true: draname.Driver}

func (p heldPod) key() holders.Key { return holders.Key{Resource: ownKey[p.dra], ID: p.id} }

// locked calls f while no other goroutine uses the pods.
func (n *twoAPIs) locked(f func()) {
	n.state <- struct{}{}
	defer func() { <-n.state }()
	f()
}

// report returns what the sources of the daemon with the API say. Some answers of the kubelet come too late, and
// sometimes it does not write its checkpoint after an answer.
func (n *twoAPIs) report(ctx context.Context, dra bool, allocations *holders.Allocations) (r holders.Report) {
	r.Asked = time.Now()
	var takes time.Duration // mostly none
	writes := false
	n.locked(func() {
		if n.delays.IntN(4) == 0 {
			takes = time.Duration(n.delays.Int64N(int64(3 * time.Second)))
		}
		writes = n.delays.IntN(4) > 0
	})
	time.Sleep(takes)
	r.KubeletErr, r.Answered = ctx.Err(), time.Now()
	n.locked(func() {
		r.Answer = podresources.Answer{Holders: map[holders.Key][]podresources.Holder{}, Started: n.started}
		if !time.Now().Before(n.knows) {
			r.Answer.Pods = []string{"kube-system/" + ownPod}
			for name, p := range n.pods {
				r.Answer.Pods = append(r.Answer.Pods, "ns/"+name)
				r.Answer.Holders[p.key()] = []podresources.Holder{{Namespace: "ns", Pod: name, Container: "main"}}
			}
			maps.DeleteFunc(n.memory, func(name string, _ heldPod) bool { return n.pods[name].id == "" })
		}
		if writes {
			n.write()
		}
		if r.Checkpoint = n.file; dra {
			r.Claims = n.prepared()
		} else {
			r.Allocated = allocations.All()
		}
	})
	return r
}

// write writes the checkpoint, a moment after this call. The caller must be in locked.
func (n *twoAPIs) write() {
	type entry struct {
		PodUID, ContainerName, ResourceName string
		DeviceIDs                           map[string][]string
		AllocResp                           []byte
	}
	var content struct {
		Data struct{ PodDeviceEntries []entry }
	}
	for name, p := range n.memory {
		annotations := map[string]string{}
		checkpoint.Annotate(annotations, p.id, p.nodes)
		var answer []byte
		for key, value := range annotations {
			answer = append(answer, field(4, append(field(1, []byte(key)), field(2, []byte(value))...))...)
		}
		content.Data.PodDeviceEntries = append(content.Data.PodDeviceEntries, entry{name, "main", testResource, map[string][]string{"-1": {p.id}}, answer})
	}
	text, err := json.Marshal(content)
	if err == nil {
		err = os.WriteFile(filepath.Join(n.cfg.KubeletDir, checkpoint.File), text, 0o600)
	}
	if err == nil {
		n.file, err = new(checkpoint.Reader).Read(n.cfg.KubeletDir)
	}
	if err != nil {
		n.Error(err)
	}
	n.file.Written = time.Now().Add(time.Millisecond)
}

// field returns a protobuf field of fewer than 128 bytes.
func field(number byte, content []byte) []byte {
	return append([]byte{number<<3 | 2, byte(len(content))}, content...)
}

// prepared returns the content of the DRA driver's claims.json. The caller must be in locked.
func (n *twoAPIs) prepared() map[string][]inventory.Holding {
	all := map[string][]inventory.Holding{}
	for _, p := range n.pods {
		if p.dra {
			all[p.id] = []inventory.Holding{{As: draname.Driver, Nodes: p.nodes}}
		}
	}
	return all
}

// start starts a daemon with the API. The kubelet starts it, so it knows its pods.
func (n *twoAPIs) start(dra bool) {
	if n.stop != nil {
		n.stop()
	}
	if wait := time.Until(n.knows); wait > 0 {
		time.Sleep(wait)
	}
	n.dra = dra
	cfg := daemon.Watching(n.cfg, metrics.New("test"))
	cfg.HoldersUnknown = true
	rules := holders.Rules{
		Owns: offer.NewOwnership(daemon.OfferNaming(n.cfg)).Owns, DRA: dra, Pod: ownPod, DevRoot: "/dev", Grace: n.cfg.TombstoneGrace,
	}
	allocations := holders.NewAllocations()
	n.allocations = allocations
	cfg.Given = allocations.Added()
	if dra {
		cfg.Policy.Name = func(*inventory.Device) (string, error) { return draname.Driver, nil }
	}
	n.locked(func() {
		r := holders.Report{Asked: time.Now(), KubeletErr: context.Canceled, Checkpoint: n.file}
		if dra {
			r.Claims = n.prepared()
		}
		cfg.Record = holders.Merge(holders.State{}, r, rules).Holdings().Of
	})
	var known holders.State
	cfg.Holders = func(ctx context.Context) inventory.Holdings { // one call at a time
		known = holders.Merge(known, n.report(ctx, dra, allocations), rules)
		return known.Holdings()
	}
	n.inv = inventory.New(cfg, sysfs.Host{Sys: n.node.Sys, Dev: n.node.Dev, Simulated: true}, zap.NewNop())
	ctx, cancel := context.WithCancel(n.Context())
	ended := make(chan struct{}, 2)
	inv := n.inv
	go func() { _ = inv.Run(ctx); ended <- struct{}{} }()
	go func() { // checks each snapshot
		for ctx.Err() == nil {
			s, stale := inv.Latest()
			n.check(s, dra)
			select {
			case <-stale:
			case <-ctx.Done():
			}
		}
		ended <- struct{}{}
	}()
	n.stop = func() {
		cancel()
		<-ended
		<-ended
	}
	synctest.Wait()
}

// free reports whether Kubernetes may give the device to a pod.
func free(d *inventory.Device, dra bool) bool {
	return d.Health != inventory.Unhealthy && d.OfferedAs == ownKey[dra]
}

// check fails the test if a device that is held through the other API is free in a snapshot.
func (n *twoAPIs) check(s inventory.Snapshot, dra bool) {
	n.locked(func() {
		for name, p := range n.pods {
			if d := s.Device(p.id); d != nil && p.dra != dra && free(d, dra) {
				n.Errorf("%s, DRA %v: %s is free (%v, as %s), and held by %s", time.Now().Format("04:05.000"), dra, d.ID, d.Health, d.OfferedAs, name)
			}
		}
	})
}

// allocate gives a free device to a new pod. A kubelet that does not know its pods admits none. The devices of its
// own API that pods hold are never given again, whatever the list has.
func (n *twoAPIs) allocate() {
	s, _ := n.inv.Latest()
	n.locked(func() {
		if time.Now().Before(n.knows) {
			return
		}
		held := map[string]bool{}
		for _, p := range n.pods {
			if p.dra == n.dra {
				held[p.id] = true
			}
		}
		for _, i := range n.random.Perm(len(s.Devices)) {
			d := s.Devices[i]
			if !free(d, n.dra) || held[d.ID] {
				continue
			}
			for name, p := range n.pods {
				if p.id == d.ID {
					n.Errorf("%s, DRA %v: %s is given to a pod, and held by %s", time.Now().Format("04:05.000"), n.dra, d.ID, name)
				}
			}
			name, p := fmt.Sprint("pod", n.next), heldPod{n.dra, d.ID, slices.Concat(d.Nodes, d.NodeNumbers)}
			n.next++
			n.pods[name] = p
			if !n.dra {
				_, _ = n.allocations.Add(testResource, func() (map[string][]string, error) { return map[string][]string{p.id: p.nodes}, nil })
				n.memory[name] = p
				n.write()
			}
			return
		}
	})
}

// turn makes one random step.
func (n *twoAPIs) turn() {
	switch n.random.IntN(10) {
	case 0, 1, 2:
		n.allocate()
	case 3, 4:
		n.locked(func() {
			if names := slices.Sorted(maps.Keys(n.pods)); len(names) > 0 {
				delete(n.pods, names[n.random.IntN(len(names))])
			}
		})
	case 5, 6: // another kubelet, which gets its pods late
		n.locked(func() {
			n.started = time.Now()
			n.knows = n.started.Add(time.Duration(n.random.Int64N(int64(90 * time.Second))))
			clear(n.memory)
			for _, e := range n.file.Entries {
				nodes, err := e.Nodes(e.IDs[0], "/dev")
				if err != nil {
					n.Error(err)
				}
				n.memory[e.PodUID] = heldPod{false, e.IDs[0], nodes}
			}
		})
	case 7:
		n.start(n.random.IntN(3) == 0 == n.dra) // mostly the other API
	case 8: // a card is pulled and plugged in again
		card := cardAt(cards[n.random.IntN(len(cards))])
		if n.node.Unplug(card.Address) != nil {
			return
		}
		n.inv.Hint(inventory.Hint{Card: card.Address, Source: "test", At: time.Now()})
		time.Sleep(time.Duration(n.random.Int64N(int64(20 * time.Second))))
		if err := n.node.Plug(card); err != nil {
			n.Fatal(err)
		}
		n.inv.Hint(inventory.Hint{Card: card.Address, Source: "test", At: time.Now()})
	}
	time.Sleep(time.Duration(n.random.Int64N(int64(15 * time.Second))))
	synctest.Wait()
	s, _ := n.inv.Latest()
	n.check(s, n.dra)
}

var cards = []string{"0000:3b:00.0", "0000:5e:00.0", "0001:af:00.0"}

func cardAt(address string) simnode.Card {
	return simnode.Card{Address: address, Ports: 1, AFUID: strings.Repeat("d", 32), InterfaceID: strings.Repeat("1", 32), NUMANode: -1}
}

// What a container holds through one API is never free in the other one, in any order of allocations, ends of pods,
// changes of the API, restarts of the kubelet and pulled cards. In the end all devices are free.
func TestHandOver(t *testing.T) {
	for seed := range 6 * *histories {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			node, err := simnode.New(t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			for _, address := range cards {
				if err := node.Plug(cardAt(address)); err != nil {
					t.Fatal(err)
				}
			}
			synctest.Test(t, func(t *testing.T) {
				cfg := config.Defaults()
				cfg.KubeletDir, cfg.ResourceName, cfg.FlapLimit = t.TempDir(), testResource, 0
				n := &twoAPIs{
					T: t, random: rand.New(rand.NewPCG(1, uint64(seed))), delays: rand.New(rand.NewPCG(2, uint64(seed))), node: node, cfg: cfg, pods: map[string]heldPod{}, memory: map[string]heldPod{},
					state: make(chan struct{}, 1), started: time.Now().Add(-time.Hour),
				}
				n.start(seed%2 == 0)
				for range 60 {
					if n.turn(); t.Failed() {
						break
					}
				}
				n.locked(func() { clear(n.pods) })
				time.Sleep(5 * time.Minute)
				synctest.Wait()
				s, _ := n.inv.Latest()
				var states []string
				for _, d := range s.Devices {
					if !free(d, n.dra) {
						states = append(states, fmt.Sprintf("%s %s %v as %s", d.ID, d.Health, d.Reasons, d.OfferedAs))
					}
				}
				if len(states) > 0 || len(s.Devices) != len(cards) {
					t.Errorf("after the last pod: %d devices, not free: %s", len(s.Devices), strings.Join(states, "; "))
				}
				n.stop()
			})
		})
	}
}
