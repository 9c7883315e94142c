package main

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"

	"b-com.com/accelerator-device-plugin/internal/config"
	"b-com.com/accelerator-device-plugin/internal/daemon"
	"b-com.com/accelerator-device-plugin/internal/draname"
	"b-com.com/accelerator-device-plugin/internal/metrics"
	"b-com.com/accelerator-device-plugin/internal/sim/simnode"
	"b-com.com/accelerator-device-plugin/internal/sysfs"
	"b-com.com/accelerator-device-plugin/inventory"
	"b-com.com/accelerator-device-plugin/server"
	"b-com.com/accelerator-device-plugin/server/offer"
	"b-com.com/accelerator-device-plugin/server/podresources"
)

// twoAPIs is a node on which pods get devices through either API. Its methods are called by one goroutine, except
// ask and check.
type twoAPIs struct {
	*testing.T
	random *rand.Rand
	node   *simnode.Node
	cfg    config.Config
	state  chan struct{} // has an element while a goroutine uses pods, knows, started or delays
	delays *rand.Rand

	pods    map[string]heldPod // by name
	knows   time.Time          // when the kubelet knows its pods again
	started time.Time          // the start of the kubelet
	next    int                // number of the next pod

	dra  bool // the API of the running daemon
	inv  *inventory.Inventory
	stop func()
}

type heldPod struct {
	dra bool // the device belongs to a claim
	id  string
}

var handOvers = flag.Int("handovers", 8, "number of random sequences of TestHandOver")

const ownPod = "accelerator-x7k2p"

var ownKey = map[bool]string{false: testResource, true: draname.Driver}

// key returns the kubelet's key of a device.
func (p heldPod) key() podresources.Key {
	if p.dra {
		return podresources.Key{Resource: draname.Driver, ID: draname.Device(p.id)}
	}
	return podresources.Key{Resource: testResource, ID: p.id}
}

// locked calls f while no other goroutine uses the pods.
func (n *twoAPIs) locked(f func()) {
	n.state <- struct{}{}
	defer func() { <-n.state }()
	f()
}

// answer returns the answer of pod-resources, and reports whether the kubelet has just started.
func (n *twoAPIs) answer() (a podresources.Answer, justStarted bool) {
	var takes time.Duration // mostly none; some answers come too late
	n.locked(func() {
		if n.delays.IntN(4) == 0 {
			takes = time.Duration(n.delays.Int64N(int64(3 * time.Second)))
		}
	})
	time.Sleep(takes)
	n.locked(func() {
		a.Holders = map[podresources.Key][]podresources.Holder{}
		justStarted = time.Since(n.started) < 10*time.Second
		if time.Now().Before(n.knows) {
			return
		}
		a.Pods = []string{ownPod}
		for name, p := range n.pods {
			a.Pods = append(a.Pods, name)
			a.Holders[p.key()] = append(a.Holders[p.key()], podresources.Holder{Namespace: "ns", Pod: name, Container: "main"})
		}
	})
	return a, justStarted
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
	cfg.OtherAPI = true
	owned := offer.NewOwnership(daemon.PolicyOf(n.cfg))
	if dra {
		cfg.Policy.Name = func(*inventory.Device) (string, error) { return draname.Driver, nil }
		cfg.Certain = true
		memory := &podresources.Memory{Pod: ownPod, Keep: func(k podresources.Key) bool { return owned.Owns(k.Resource, k.ID) }}
		cfg.Holders = func(ctx context.Context) (map[string][]inventory.Holding, error) { return n.askDriver(ctx, memory) }
	} else {
		source := holderSource{
			kubeletDir: n.cfg.KubeletDir, owns: owned.Owns, given: server.NewAllocations(0),
			claims: &podresources.Memory{Pod: ownPod, Keep: byClaim},
		}
		cfg.Holders = func(ctx context.Context) (map[string][]inventory.Holding, error) {
			a, justStarted := n.answer()
			if ctx.Err() != nil {
				return nil, ctx.Err()
			}
			return source.complete(ctx, time.Now(), devicesHeld(source.claims.Complete(a, justStarted)))
		}
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

// askDriver returns the answer of the DRA driver's source: the claims of its own file, and what the kubelet reports
// about the device plugin.
func (n *twoAPIs) askDriver(ctx context.Context, memory *podresources.Memory) (map[string][]inventory.Holding, error) {
	a, justStarted := n.answer()
	all := map[string][]inventory.Holding{}
	n.locked(func() {
		for name, p := range n.pods {
			if p.dra {
				all[p.id] = []inventory.Holding{{As: draname.Driver, Holders: []string{name}}}
			}
		}
	})
	if ctx.Err() != nil {
		return all, inventory.Partial{Err: ctx.Err()}
	}
	for key, holders := range memory.Complete(a, justStarted) {
		if key.Resource == testResource {
			all[key.ID] = append(all[key.ID], inventory.Holding{As: key.Resource, Holders: []string{holders[0].String()}, OtherAPI: true})
		}
	}
	return all, nil
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
			n.pods[fmt.Sprint("pod", n.next)] = heldPod{n.dra, d.ID}
			n.next++
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
	for seed := range *handOvers {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
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
					T: t, random: rand.New(rand.NewPCG(1, uint64(seed))), delays: rand.New(rand.NewPCG(2, uint64(seed))), node: node, cfg: cfg, pods: map[string]heldPod{},
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
