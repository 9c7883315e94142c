package inventory_test

import (
	"context"
	"errors"
	"maps"
	"path"
	"slices"
	"sync"
	"time"

	"b-com.com/accelerator-device-plugin/inventory"
)

const tombstoneGrace = 5 * time.Minute

// otherAPI is the name under which devices are held through the other API.
const otherAPI = "dra"

// fakeKubelet answers questions about holders, as package kubelet/holders does.
type fakeKubelet struct {
	mu     sync.Mutex
	held   map[string][]inventory.Holding
	known  map[string][]inventory.Holding // in the latest answer without an error
	awaits bool                           // until there is such an answer, devices may be held through the other API
	err    error
	stall  bool          // doesn't answer until the context is done
	takes  time.Duration // how long it takes to answer
	asked  []time.Time
}

func newFakeKubelet() *fakeKubelet { return &fakeKubelet{held: map[string][]inventory.Holding{}} }

func (d *fakeKubelet) ask(ctx context.Context) inventory.Holdings {
	d.mu.Lock()
	h := inventory.Holdings{Of: maps.Clone(d.held), Asked: time.Now(), Err: d.err}
	d.asked = append(d.asked, h.Asked)
	stall, takes := d.stall, d.takes
	d.mu.Unlock()
	if stall {
		<-ctx.Done()
		h.Err = ctx.Err()
	}
	if takes > 0 {
		time.Sleep(takes) // fake time
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if h.Err != nil {
		h.Of, h.Missing = maps.Clone(d.known), []inventory.MissingSource{{Name: "pod-resources", Err: h.Err}}
		h.Awaiting = d.awaits && h.Asked.Sub(d.asked[0]) < tombstoneGrace
	} else {
		d.known, d.awaits = maps.Clone(h.Of), false
	}
	for id, holdings := range h.Of {
		pods := map[string]bool{}
		var names []string
		for _, holding := range holdings {
			h.Unnamed = h.Unnamed || len(holding.Holders) == 0
			for _, name := range holding.Holders {
				pods[path.Dir(name)], names = true, append(names, name)
			}
		}
		if len(pods) > 1 {
			if h.Shared == nil {
				h.Shared = map[string][]string{}
			}
			h.Shared[id] = slices.Sorted(slices.Values(names))
		}
	}
	return h
}

func (d *fakeKubelet) hold(id string, holders ...string) { d.holdAs("b.com/fpga", id, holders...) }

// holdAs adds holders of a device under this name. Holders under other names stay.
func (d *fakeKubelet) holdAs(name, id string, holders ...string) { d.give(name, id, nil, holders...) }

// give is like holdAs, but also sets the names and numbers of the nodes that the holders were given.
func (d *fakeKubelet) give(name, id string, nodes []string, holders ...string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	others := slices.DeleteFunc(slices.Clone(d.held[id]), func(h inventory.Holding) bool { return h.As == name })
	// The other API's name is dra. It isn't known which nodes it has allocated.
	h := inventory.Holding{As: name, Holders: holders, Nodes: nodes, OtherAPI: name == otherAPI}
	if h.OtherAPI {
		h.Nodes, h.NodesErr = nil, errors.New("not known")
	}
	d.held[id] = append(others, h)
}

// setNodesErr makes it unknown which nodes a device's holders were given, because of err. If err is nil, it is known
// again.
func (d *fakeKubelet) setNodesErr(id string, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.held[id] = slices.Clone(d.held[id])
	for i := range d.held[id] {
		d.held[id][i].NodesErr = err
	}
}

// record returns what a daemon that starts now would find in the checkpoint: the current holdings, except those through
// the other API.
func (d *fakeKubelet) record() map[string][]inventory.Holding {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.known, d.asked = map[string][]inventory.Holding{}, nil
	for id, holdings := range d.held {
		own := slices.DeleteFunc(slices.Clone(holdings), func(h inventory.Holding) bool { return h.OtherAPI })
		if len(own) > 0 {
			d.known[id] = own
		}
	}
	return maps.Clone(d.known)
}

func (d *fakeKubelet) free(id string) { d.set(func() { delete(d.held, id) }) }

// fail makes the following answers fail with this error. If why is "", they succeed again.
func (d *fakeKubelet) fail(why string) {
	var err error
	if why != "" {
		err = errors.New(why)
	}
	d.set(func() { d.err = err })
}

func (d *fakeKubelet) set(change func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	change()
}

// questions returns when the questions were asked, relative to start.
func (d *fakeKubelet) questions(start time.Time) []time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	var all []time.Duration
	for _, at := range d.asked {
		all = append(all, at.Sub(start))
	}
	return all
}

// withKubelet returns the test configuration with d answering questions about holders.
func withKubelet(d *fakeKubelet) inventory.Config {
	cfg := testConfig
	cfg.Holders, cfg.HoldersInterval, cfg.TombstoneGrace = d.ask, 10*time.Second, tombstoneGrace
	return cfg
}
