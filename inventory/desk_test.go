package inventory_test

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"b-com.com/accelerator-device-plugin/inventory"
)

// desk answers the questions for holders.
type desk struct {
	mu    sync.Mutex
	held  map[string][]inventory.Holding
	err   error
	stall bool          // no answer before the context ends
	empty bool          // the answer names no holder, as that of a kubelet that has just started
	takes time.Duration // before it answers
	asked []time.Time
}

func newDesk() *desk { return &desk{held: map[string][]inventory.Holding{}} }

func (d *desk) ask(ctx context.Context) (map[string][]inventory.Holding, error) {
	d.mu.Lock()
	d.asked = append(d.asked, time.Now())
	held, err, stall, takes := maps.Clone(d.held), d.err, d.stall, d.takes
	d.mu.Unlock()
	if d.saysNothing() {
		held = map[string][]inventory.Holding{}
	}
	if stall {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	if takes > 0 {
		time.Sleep(takes) // in the bubble
	}
	return held, err
}

func (d *desk) saysNothing() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.empty
}

func (d *desk) hold(id string, holders ...string) {
	d.holdAs("b.com/fpga", id, holders...)
}

// holdAs makes a device held under this name, in addition to others.
func (d *desk) holdAs(name, id string, holders ...string) { d.give(name, id, nil, holders...) }

// give is holdAs with the names and numbers of the nodes that the holders are given.
func (d *desk) give(name, id string, nodes []string, holders ...string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	others := slices.DeleteFunc(slices.Clone(d.held[id]), func(h inventory.Holding) bool { return h.As == name })
	d.held[id] = append(others, inventory.Holding{As: name, Holders: holders, Nodes: nodes})
}

// forgetNodes makes the nodes that the holders of a device were given unknown, or known again if
// err is nil.
func (d *desk) forgetNodes(id string, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.held[id] = slices.Clone(d.held[id])
	for i := range d.held[id] {
		d.held[id][i].NodesErr = err
	}
}

// record returns the holdings so far.
func (d *desk) record() map[string][]inventory.Holding {
	d.mu.Lock()
	defer d.mu.Unlock()
	return maps.Clone(d.held)
}

func (d *desk) free(id string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.held, id)
}

func (d *desk) fail(why string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.err = nil
	if why != "" {
		d.err = errors.New(why)
	}
}

func (d *desk) set(change func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	change()
}

// questions returns the times of the questions, since start.
func (d *desk) questions(start time.Time) []time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	var all []time.Duration
	for _, at := range d.asked {
		all = append(all, at.Sub(start))
	}
	return all
}

// withDesk returns the test configuration with a desk for Holders.
func withDesk(d *desk) inventory.Config {
	cfg := testConfig
	cfg.Holders, cfg.HoldersInterval, cfg.TombstoneGrace = d.ask, 10*time.Second, 5*time.Minute
	return cfg
}
