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

// otherAPI is the name under which devices are held through the other API.
const otherAPI = "dra"

// fakeKubelet answers the questions for holders.
type fakeKubelet struct {
	mu    sync.Mutex
	held  map[string][]inventory.Holding
	err   error
	stall bool          // no answer before the context ends
	empty bool          // the answer has no holders, as that of a kubelet that has just started
	takes time.Duration // before it answers
	asked []time.Time
}

func newFakeKubelet() *fakeKubelet { return &fakeKubelet{held: map[string][]inventory.Holding{}} }

func (d *fakeKubelet) ask(ctx context.Context) (map[string][]inventory.Holding, error) {
	d.mu.Lock()
	d.asked = append(d.asked, time.Now())
	held, err, stall, takes := maps.Clone(d.held), d.err, d.stall, d.takes
	d.mu.Unlock()
	if d.isEmpty() {
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

func (d *fakeKubelet) isEmpty() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.empty
}

func (d *fakeKubelet) hold(id string, holders ...string) {
	d.holdAs("b.com/fpga", id, holders...)
}

// holdAs adds holders of a device under this name. The holders under other names stay.
func (d *fakeKubelet) holdAs(name, id string, holders ...string) { d.give(name, id, nil, holders...) }

// give is holdAs with the names and numbers of the nodes that the holders were given.
func (d *fakeKubelet) give(name, id string, nodes []string, holders ...string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	others := slices.DeleteFunc(slices.Clone(d.held[id]), func(h inventory.Holding) bool { return h.As == name })
	// The other API has the name dra. The nodes that it has given are not known.
	h := inventory.Holding{As: name, Holders: holders, Nodes: nodes, OtherAPI: name == otherAPI}
	if h.OtherAPI {
		h.Nodes, h.NodesErr = nil, errors.New("not known")
	}
	d.held[id] = append(others, h)
}

// setNodesErr sets the error with which the nodes of a device's holders are not known. They are known
// again if err is nil.
func (d *fakeKubelet) setNodesErr(id string, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.held[id] = slices.Clone(d.held[id])
	for i := range d.held[id] {
		d.held[id][i].NodesErr = err
	}
}

// record returns the present holdings.
func (d *fakeKubelet) record() map[string][]inventory.Holding {
	d.mu.Lock()
	defer d.mu.Unlock()
	return maps.Clone(d.held)
}

func (d *fakeKubelet) free(id string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.held, id)
}

func (d *fakeKubelet) fail(why string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.err = nil
	if why != "" {
		d.err = errors.New(why)
	}
}

func (d *fakeKubelet) set(change func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	change()
}

// questions returns the times of the questions, since start.
func (d *fakeKubelet) questions(start time.Time) []time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	var all []time.Duration
	for _, at := range d.asked {
		all = append(all, at.Sub(start))
	}
	return all
}

// withKubelet returns the test configuration with d for Holders.
func withKubelet(d *fakeKubelet) inventory.Config {
	cfg := testConfig
	cfg.Holders, cfg.HoldersInterval, cfg.TombstoneGrace = d.ask, 10*time.Second, 5*time.Minute
	return cfg
}
