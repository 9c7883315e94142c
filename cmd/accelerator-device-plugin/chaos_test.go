package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"b-com.com/accelerator-device-plugin/internal/config"
	"b-com.com/accelerator-device-plugin/internal/simnode"
	"b-com.com/accelerator-device-plugin/inventory"
	"b-com.com/accelerator-device-plugin/server"
	"b-com.com/accelerator-device-plugin/watcher"
)

// TestChaos changes a node thousands of times at random, while hints are lost,
// doubled and reordered, streams are cut and the kubelet restarts. When it is
// over, what every stream was told last is the truth on disk, within a resync.
func TestChaos(t *testing.T) {
	for _, seed := range []uint64{1, uint64(time.Now().UnixNano())} {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) { chaos(t, seed, 1500) })
	}
}

func chaos(t *testing.T, seed uint64, turns int) {
	random := rand.New(rand.NewPCG(seed, 0))
	d := &daemon{t: t, cfg: config.Defaults(), hangups: nil}
	dir := shortDir(t)
	var err error
	d.node, err = simnode.New(dir)
	d.do(err)
	d.cfg.SysfsRoot, d.cfg.DevRoot, d.cfg.HostDevRoot, d.cfg.KubeletDir = d.node.Sys, d.node.Dev, "/dev", dir+"/kubelet"
	d.cfg.ResyncInterval, d.cfg.HealthInterval, d.cfg.RecoveryHold = 200*time.Millisecond, 100*time.Millisecond, 10*time.Millisecond
	d.startKubelet()
	defer func() { d.kubelet.Stop() }()
	defer runMangled(t, d.cfg, seed)()

	truth := newModel(d)
	for turn := range turns {
		truth.turn(random)
		switch random.IntN(100) {
		case 0:
			d.restartKubelet()
		case 1, 2:
			d.kubelet.CutStream(testResource)
		case 3:
			truth.settle(fmt.Sprintf("in the middle, turn %d", turn))
		}
	}
	truth.settle("at the end")
}

// runMangled runs the daemon with a bad ear: of its hints some are lost, some
// come twice, some late. The func that it returns stops it.
func runMangled(t *testing.T, cfg config.Config, seed uint64) (stop func()) {
	node, err := openNode(cfg, zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	settings := server.Defaults()
	settings.KubeletDir, settings.HostDevRoot, settings.Policy = cfg.KubeletDir, cfg.HostDevRoot, policyOf(cfg)
	settings.BackoffMax = time.Second
	// A stream that is cut before it arrives looks like none that was opened.
	settings.StreamTimeout = time.Second
	srv, err := server.New(settings, node.inventory, zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	tasks, ctx := errgroup.WithContext(ctx)
	ear := &badEar{random: rand.New(rand.NewPCG(seed, 1)), to: node.inventory.Hint}
	tasks.Go(func() error { return node.watcher.Run(ctx, ear.hear) })
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
	to     func(inventory.Hint)
}

func (e *badEar) hear(h watcher.Hint) {
	e.mu.Lock()
	defer e.mu.Unlock()
	switch e.random.IntN(4) {
	case 0:
	case 1:
		e.to(inventory.Hint(h))
		e.to(inventory.Hint(h))
	case 2:
		e.kept = append(e.kept, h)
	case 3:
		e.to(inventory.Hint(h))
		for _, late := range e.kept {
			e.to(inventory.Hint(late))
		}
		e.kept = nil
	}
}

// model knows what was done to the node, and so what the kubelet must hear.
type model struct {
	d     *daemon
	slots []simnode.Card
	in    map[string]bool   // by address
	ports map[string]health // by address: id -> healthy
}

func newModel(d *daemon) *model {
	m := &model{d: d, in: map[string]bool{}, ports: map[string]health{}}
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
	if !m.in[c.Address] {
		m.plug(c)
		return
	}
	port := random.IntN(c.Ports)
	state, id := m.ports[c.Address], portID(c, port)
	switch random.IntN(4) {
	case 0:
		m.d.do(m.d.node.Unplug(c.Address))
		m.in[c.Address] = false
	case 1:
		m.d.do(m.d.node.Set(c.Address, port, "errors/errors", "0x4000000000000"))
		state[id] = false
	case 2:
		m.d.do(m.d.node.Set(c.Address, port, "errors/errors", "0x0"))
		state[id] = true
	case 3: // out and in again at once: it may go unnoticed, its state may not
		m.d.do(m.d.node.Unplug(c.Address))
		m.plug(c)
	}
}

func (m *model) plug(c simnode.Card) {
	m.d.do(m.d.node.Plug(c))
	m.in[c.Address] = true
	m.ports[c.Address] = health{}
	for port := range c.Ports {
		m.ports[c.Address][portID(c, port)] = true
	}
}

// settle waits until the kubelet was told the truth.
func (m *model) settle(when string) {
	m.d.t.Helper()
	want := health{}
	for address, in := range m.in {
		if in {
			for id, healthy := range m.ports[address] {
				want[id] = healthy
			}
		}
	}
	if len(want) == 0 && m.d.kubelet.Newest(testResource).Number == 0 {
		return // nothing there, nothing ever told to this kubelet
	}
	m.d.await(when, want)
}
