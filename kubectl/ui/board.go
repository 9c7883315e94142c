package ui

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"b-com.com/accelerator-device-plugin/kubectl/fleet"
	"b-com.com/accelerator-device-plugin/kubectl/rows"
)

const (
	recent = 7 * 24 * time.Hour // how far back to count health changes
	linger = 30 * time.Second   // how long nodes are followed after the last page was closed
	retry  = 5 * time.Second    // how long to wait after an error before following the nodes again
)

// Board holds each node's latest answer. It is safe for concurrent use. Set Kubectl before using it.
type Board struct {
	Kubectl [2]string // how the page's commands begin, for kubectl and for kubectl accelerator

	cluster string

	mu      sync.Mutex
	version int
	changed chan struct{} // closed when version changes
	trouble string        // why the pods aren't known
	nodes   map[string]*entry
	viewers int           // number of open pages
	looked  chan struct{} // closed when viewers changes
}

// entry is what the board knows about a release on a node.
type entry struct {
	version int // board version in which the entry last changed
	gone    bool
	node    node
	details json.RawMessage
}

// node is what the page shows about each node.
type node struct {
	Key     string   `json:"key"`
	Node    string   `json:"node"`
	Pod     string   `json:"pod"` // NAMESPACE/POD
	Version string   `json:"version"`
	API     string   `json:"api"`
	Asked   bool     `json:"asked"` // the node hasn't answered yet
	Error   string   `json:"error"` // why Devices, Version and API are from an earlier answer
	Notes   []string `json:"notes"`
	Devices []device `json:"devices"`
}

type device struct {
	ID      string   `json:"id"`
	Card    string   `json:"card"`
	Health  string   `json:"health"`
	Fault   bool     `json:"fault"` // someone has to do something about it
	Reasons []string `json:"reasons"`
	Holder  string   `json:"holder"`
	Cordon  string   `json:"cordon"`  // who cordoned it, and why
	Changes int64    `json:"changes"` // recent health changes of the device's card
	More    bool     `json:"more"`    // there may have been more changes
}

// NewBoard returns an empty board for a cluster.
func NewBoard(cluster string) *Board {
	return &Board{Kubectl: [2]string{"kubectl", "kubectl accelerator"}, cluster: fleet.Printable(cluster), changed: make(chan struct{}), looked: make(chan struct{}), nodes: map[string]*entry{}}
}

// Follow runs follow while a page is open, and updates the board with the changes that follow reports. If follow fails,
// Follow runs it again after a while. Follow returns when ctx is done.
func (b *Board) Follow(ctx context.Context, follow func(context.Context, func(fleet.Change)) error) {
	for b.await(ctx, true, 0) {
		following, cancel := context.WithCancel(ctx)
		var waiting sync.WaitGroup
		waiting.Go(func() {
			b.await(following, false, linger)
			cancel()
		})
		err := follow(following, b.Report)
		cancel()
		waiting.Wait()
		if err == nil {
			b.forget()
			continue
		}
		b.Report(fleet.Change{Answer: fleet.Answer{Err: err}})
		select {
		case <-ctx.Done():
		case <-time.After(retry):
		}
	}
}

// await waits until at least one page (or, if open is false, no page) has been open for the given time. It returns
// false if ctx is done first.
func (b *Board) await(ctx context.Context, open bool, during time.Duration) bool {
	for {
		b.mu.Lock()
		is, changed := b.viewers > 0, b.looked
		b.mu.Unlock()
		var enough <-chan time.Time
		if is == open {
			enough = time.After(during)
		}
		select {
		case <-ctx.Done():
			return false
		case <-changed:
		case <-enough:
			return true
		}
	}
}

// look adds n, which may be negative, to the number of open pages.
func (b *Board) look(n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.viewers += n
	close(b.looked)
	b.looked = make(chan struct{})
}

// forget marks all nodes as gone but keeps their devices.
func (b *Board) forget() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, e := range b.nodes {
		e.gone, e.version = true, b.version+1
	}
	b.touch()
}

// touch starts a new version of the board. The caller must hold mu.
func (b *Board) touch() {
	b.version++
	close(b.changed)
	b.changed = make(chan struct{})
}

// Report applies a change to the board. It doesn't block.
func (b *Board) Report(c fleet.Change) {
	next := &entry{gone: c.Gone}
	if !c.Gone && c.Key != "" {
		next.node, next.details = summary(c)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if c.Key == "" {
		text := ""
		if c.Err != nil {
			text = fleet.Printable(c.Err.Error())
		}
		if text == b.trouble {
			return
		}
		b.trouble = text
	} else {
		if last := b.nodes[c.Key]; last != nil && c.Err != nil {
			next.node.Devices, next.node.Version, next.node.API, next.details = last.node.Devices, last.node.Version, last.node.API, last.details
		}
		next.version = b.version + 1
		b.nodes[c.Key] = next
	}
	b.touch()
}

func summary(c fleet.Change) (node, json.RawMessage) {
	n := node{
		Key: c.Key, Node: c.Node, Pod: strings.Trim(c.Namespace+"/"+c.Pod, "/"), Version: c.State.Version, API: c.State.API,
		Asked: errors.Is(c.Err, fleet.ErrAsked), Notes: c.State.Problems, Devices: []device{},
	}
	if c.Err != nil {
		if !n.Asked {
			n.Error = fleet.Printable(c.Err.Error())
		}
		return n, nil
	}
	changes := map[string]rows.Row{}
	for _, r := range rows.Flaps([]fleet.Answer{c.Answer}, time.Now().Add(-recent)) {
		changes[rows.Text(r["card"])] = r
	}
	for _, r := range rows.Devices([]fleet.Answer{c.Answer}, nil, false) {
		d := device{ID: rows.Text(r["id"]), Health: rows.Text(r["health"]), Reasons: []string{}, Holder: rows.Holder(r), Cordon: rows.Cordon(r)}
		d.Card, _, _ = strings.Cut(d.ID, "-p")
		reasons, _ := r["reasons"].([]any)
		for _, reason := range reasons {
			d.Reasons = append(d.Reasons, rows.Text(reason))
		}
		d.Fault = slices.Contains(c.State.Faulty, d.ID) || r["missingSince"] != nil && d.Cordon == ""
		d.Changes, _ = changes[d.Card]["changes"].(int64)
		d.More = changes[d.Card]["more"] == true
		n.Devices = append(n.Devices, d)
	}
	// A change in a sensor's value alone isn't reported, so the values here are from the node's latest answer.
	details, err := json.Marshal(map[string]any{"devices": c.State.Devices, "cards": c.State.Cards, "at": time.Now().UTC().Format(time.RFC3339)})
	if err != nil { // can't happen, because the value was parsed from JSON
		n.Error = err.Error()
	}
	return n, details
}

// update is a message to the page.
type update struct {
	Cluster string    `json:"cluster"`
	Kubectl [2]string `json:"kubectl"`
	All     bool      `json:"all"` // whether Nodes contains all nodes, rather than just those that have changed
	Trouble string    `json:"trouble"`
	Nodes   []node    `json:"nodes"`
	Gone    []string  `json:"gone"`
}

// since returns the changes since the given version, the current version, and a channel that is closed when there is a
// newer version.
func (b *Board) since(version int) (update, int, <-chan struct{}) {
	b.mu.Lock()
	defer b.mu.Unlock()
	u := update{Cluster: b.cluster, Kubectl: b.Kubectl, All: version == 0, Trouble: b.trouble, Nodes: []node{}, Gone: []string{}}
	for key, e := range b.nodes {
		switch {
		case e.version <= version:
		case e.gone:
			u.Gone = append(u.Gone, key)
		default:
			u.Nodes = append(u.Nodes, e.node)
		}
	}
	return u, b.version, b.changed
}

// details returns a node's devices and their history, or nil if they are unknown.
func (b *Board) details(key string) json.RawMessage {
	b.mu.Lock()
	defer b.mu.Unlock()
	if e := b.nodes[key]; e != nil {
		return e.details
	}
	return nil
}
