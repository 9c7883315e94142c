package main

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"b-com.com/accelerator-device-plugin/internal/config"
	"b-com.com/accelerator-device-plugin/internal/event/eventtest"
	"b-com.com/accelerator-device-plugin/internal/simnode"
	"b-com.com/accelerator-device-plugin/inventory"
	"b-com.com/accelerator-device-plugin/server"
	"b-com.com/accelerator-device-plugin/server/standin"
	"b-com.com/accelerator-device-plugin/watcher"
)

// TestChaos changes a node hundreds of times at random, while pods come and go,
// streams are cut and the kubelet restarts. When it is over, what every stream was
// told last is the truth on disk, and what pods hold that is not there any more. With a bad ear hints are lost, doubled and reordered, and
// the ticks must make good for it; with a good one there are no ticks, and hints
// alone must do.
func TestChaos(t *testing.T) {
	for _, test := range []struct {
		name           string
		resync, health time.Duration
		bad            bool
		turns          int
	}{
		{"bad ear", 200 * time.Millisecond, 100 * time.Millisecond, true, 700},
		{"good ear, no ticks", time.Hour, time.Hour, false, 700},
	} {
		for _, seed := range []uint64{1, uint64(time.Now().UnixNano())} {
			t.Run(fmt.Sprintf("%s, seed %d", test.name, seed), func(t *testing.T) {
				d := &daemon{t: t, cfg: config.Defaults()}
				d.cfg.ResyncInterval, d.cfg.HealthInterval, d.cfg.RecoveryHold = test.resync, test.health, 10*time.Millisecond
				d.cfg.FlapLimit = 0 // it flaps, and every turn of it is to be seen
				var ear ear = goodEar
				if test.bad {
					ear = (&badEar{random: rand.New(rand.NewPCG(seed, 1))}).hear
				}
				chaos(d, ear, rand.New(rand.NewPCG(seed, 0)), test.turns)
			})
		}
	}
}

func chaos(d *daemon, ear ear, random *rand.Rand, turns int) {
	dir := shortDir(d.t)
	var err error
	d.node, err = simnode.New(dir)
	d.do(err)
	d.cfg.SysfsRoot, d.cfg.DevRoot, d.cfg.HostDevRoot = d.node.Sys, d.node.Dev, "/dev"
	d.cfg.KubeletDir, d.cfg.PodResourcesSocket = dir+"/kubelet", dir+"/pods.sock"
	d.startKubelet()
	defer func() { d.kubelet.Stop() }()
	d.startPods()
	defer func() { d.pods.Stop() }()
	defer runWithEar(d.t, d.cfg, ear)()

	truth := newModel(d)
	defer func() {
		if d.t.Failed() {
			d.t.Logf("truth: ports %v, held %v, left %v", truth.ports, truth.held, truth.left)
		}
	}()
	for turn := range turns {
		if random.IntN(5) == 0 {
			truth.turnPod(random)
		} else {
			truth.turn(random)
		}
		switch random.IntN(100) {
		case 0:
			d.restartKubelet()
		case 1, 2:
			d.kubelet.CutStream(testResource)
		case 3, 4:
			truth.settle(fmt.Sprintf("in the middle, turn %d", turn))
		case 5, 6:
			truth.swap(random, fmt.Sprintf("card swapped, turn %d", turn))
		case 7, 8, 9: // of its lies none may be believed for long, so it tells none
			d.pods.Behave([]standin.PodBehaviour{{Stall: true}, {Fail: "not now"}, {Refuse: true}, {Garbage: true}}[random.IntN(4)])
		case 10, 11, 12:
			d.pods.Behave(standin.PodBehaviour{})
		}
	}
	truth.settle("at the end")
	truth.releaseAll()
	truth.settle("without pods")
}

// ear passes a hint on, or does not.
type ear func(h watcher.Hint, to func(inventory.Hint))

func goodEar(h watcher.Hint, to func(inventory.Hint)) { to(inventory.Hint(h)) }

// lastWords is a checked log, whose end is shown when the test fails.
func lastWords(t *testing.T) *zap.Logger {
	core, logs := eventtest.Observed(t)
	t.Cleanup(func() {
		if !t.Failed() {
			return
		}
		var said []string
		for _, line := range logs.All() {
			if line.Level > zap.DebugLevel {
				said = append(said, fmt.Sprintln(line.Time.Format(time.StampMicro), line.Message, line.ContextMap()))
			}
		}
		t.Logf("log:\n%s", strings.Join(said[max(0, len(said)-200):], ""))
	})
	return zap.New(core)
}

// runWithEar runs the daemon with an ear of ours. The func that it returns stops
// it.
func runWithEar(t *testing.T, cfg config.Config, ear ear) (stop func()) {
	watched := watching(cfg)
	settings := server.Defaults()
	settings.Allocations = server.NewAllocations(100 * time.Millisecond)
	source := holderSource{socket: cfg.PodResourcesSocket, kubeletDir: cfg.KubeletDir, owns: policyOf(cfg).Owns, given: settings.Allocations}
	watched.Holders, watched.Record = source.ask, source.record()
	watched.HoldersInterval = 50 * time.Millisecond
	log := lastWords(t)
	node, err := openNode(cfg, watched, log, log)
	if err != nil {
		t.Fatal(err)
	}
	settings.KubeletDir, settings.HostDevRoot = cfg.KubeletDir, cfg.HostDevRoot
	settings.BackoffMax = time.Second
	// A stream that is cut before it arrives looks like none that was opened.
	settings.StreamTimeout = time.Second
	srv, err := server.New(settings, node.inventory, log)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	tasks, ctx := errgroup.WithContext(ctx)
	tasks.Go(func() error {
		return node.watcher.Run(ctx, func(h watcher.Hint) { ear(h, node.inventory.Hint) })
	})
	tasks.Go(func() error { return node.inventory.Run(ctx) })
	tasks.Go(func() error { return srv.Run(ctx) })
	return func() {
		cancel()
		if err := tasks.Wait(); err != nil {
			t.Errorf("daemon: %v", err)
		}
	}
}

// badEar loses one hint in four, doubles one in four, and keeps one in four back
// until a later one.
type badEar struct {
	mu     sync.Mutex // the watcher hints from several goroutines
	random *rand.Rand
	kept   []watcher.Hint
}

func (e *badEar) hear(h watcher.Hint, to func(inventory.Hint)) {
	e.mu.Lock()
	defer e.mu.Unlock()
	switch e.random.IntN(4) {
	case 0:
	case 1:
		goodEar(h, to)
		goodEar(h, to)
	case 2:
		e.kept = append(e.kept, h)
	case 3:
		goodEar(h, to)
		for _, late := range e.kept {
			goodEar(late, to)
		}
		e.kept = nil
	}
}

// model knows what was done to the node, and so what the kubelet must hear.
type model struct {
	d     *daemon
	slots []simnode.Card
	ports map[string][]portState // by address of the cards that are in
	pods  int                    // that there have been
	held  map[string]string      // id -> pod that holds it
	left  map[string]string      // id -> AFU of the held device that left, until it is back or free
}

// portState is what is wrong with a port.
type portState struct{ broken, unbound, nodeless bool }

func newModel(d *daemon) *model {
	m := &model{d: d, ports: map[string][]portState{}, held: map[string]string{}, left: map[string]string{}}
	for i := range 8 {
		c := cardA
		c.Address = fmt.Sprintf("0000:%02x:00.0", 0x30+i)
		c.Ports = 1 + i%3
		m.slots = append(m.slots, c)
	}
	return m
}

func portID(c simnode.Card, port int) string {
	id := c.Address[len("0000:"):]
	if port > 0 {
		id += fmt.Sprintf("-p%d", port)
	}
	return id
}

// turn changes one card.
func (m *model) turn(random *rand.Rand) {
	c := m.slots[random.IntN(len(m.slots))]
	states := m.ports[c.Address]
	if states == nil {
		m.plug(c)
		return
	}
	switch random.IntN(6) {
	case 0:
		m.unplug(c)
	case 1: // out and in again at once: it may go unnoticed, its state may not
		m.unplug(c)
		m.plug(c)
	default:
		m.turnPort(random, c, random.IntN(c.Ports))
	}
}

// turnPort changes one port of a card that is in.
func (m *model) turnPort(random *rand.Rand, c simnode.Card, port int) {
	states := m.ports[c.Address]
	s := &states[port]
	node := filepath.Join(m.d.node.Dev, m.d.node.PortNode(c.Address, port))
	switch turn := random.IntN(4); {
	case s.unbound: // it has no attributes: it can only be bound again
		m.d.do(m.d.node.Bind(c.Address, port))
		s.unbound, s.broken = false, false
	case turn == 0:
		m.d.do(m.d.node.Set(c.Address, port, "errors/errors", "0x4000000000000"))
		s.broken = true
	case turn == 1:
		m.d.do(m.d.node.Set(c.Address, port, "errors/errors", "0x0"))
		s.broken = false
	case turn == 2 && !s.nodeless:
		m.d.do(os.Remove(node))
		s.nodeless = true
	case turn == 2:
		m.d.do(os.WriteFile(node, nil, 0o600))
		s.nodeless = false
	case !slices.ContainsFunc(states, func(o portState) bool { return o.unbound }):
		// One of a card: a port that was never read bound has the number that is
		// left, and only one can have that.
		m.d.do(m.d.node.Unbind(c.Address, port))
		s.unbound = true
	}
}

func (m *model) plug(c simnode.Card) {
	m.d.do(m.d.node.Plug(c))
	m.ports[c.Address] = make([]portState, c.Ports)
	for port := range c.Ports {
		if id := portID(c, port); m.left[id] == c.AFUID {
			delete(m.left, id)
		}
	}
}

func (m *model) unplug(c simnode.Card) {
	m.d.do(m.d.node.Unplug(c.Address))
	delete(m.ports, c.Address)
	for port := range c.Ports {
		if id := portID(c, port); m.held[id] != "" && m.left[id] == "" {
			m.left[id] = c.AFUID
		}
	}
}

// swap puts another card in the place of one, after everybody has seen that go: a
// swap that nobody sees is none.
func (m *model) swap(random *rand.Rand, when string) {
	m.d.t.Helper()
	i := random.IntN(len(m.slots))
	c := &m.slots[i]
	if m.ports[c.Address] == nil {
		return
	}
	m.settle(when + ", before")
	m.unplug(*c)
	m.settle(when + ", out")
	c.AFUID = map[string]string{cardA.AFUID: cardB.AFUID, cardB.AFUID: cardA.AFUID}[c.AFUID]
	m.plug(*c)
	m.settle(when + ", in")
}

// turnPod ends a pod, or starts one that asks for a healthy device.
func (m *model) turnPod(random *rand.Rand) {
	if ids := slices.Sorted(maps.Keys(m.held)); len(ids) > 4 || len(ids) > 0 && random.IntN(3) == 0 {
		m.release(ids[random.IntN(len(ids))])
		return
	}
	for _, d := range m.d.kubelet.Newest(testResource).Devices {
		if d.Healthy && m.held[d.ID] == "" {
			m.start(d.ID)
			return
		}
	}
}

// start starts a pod, as far as the daemon gives it its device: the list that the
// kubelet has may be out of date. The kubelet is sometimes asked before it shows
// the pod, sometimes after.
func (m *model) start(id string) {
	m.pods++
	pod := fmt.Sprint("pod", m.pods)
	if _, err := m.d.kubelet.Allocate(m.d.t.Context(), testResource, id); err != nil {
		return
	}
	m.d.pods.Hold("default", pod, "main", testResource, id)
	m.held[id] = pod
}

func (m *model) release(id string) {
	m.d.pods.Release("default", m.held[id])
	delete(m.held, id)
	delete(m.left, id)
}

func (m *model) releaseAll() {
	for id := range m.held {
		m.release(id)
	}
}

// settle waits until the kubelet was told the truth.
func (m *model) settle(when string) {
	m.d.t.Helper()
	m.d.pods.Behave(standin.PodBehaviour{})
	want := health{}
	for id := range m.held {
		want[id] = false // unless it is there
	}
	for _, c := range m.slots {
		for port, s := range m.ports[c.Address] {
			id := portID(c, port)
			want[id] = s == portState{} && m.left[id] == ""
		}
	}
	if len(want) == 0 && m.d.kubelet.Newest(testResource).Number == 0 {
		return // nothing there, nothing ever told to this kubelet
	}
	m.d.await(when, want)
}
