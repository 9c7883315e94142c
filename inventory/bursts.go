package inventory

import (
	"maps"
	"sync"
	"time"
)

// maxPending limits how many hints are kept while the loop is busy. If there are more, a single hint for everything
// replaces them.
const maxPending = 4096

// hints merges hints until the loop takes them. It is safe for concurrent use. The poke channel has a buffer of one, so
// adding a hint never blocks.
type hints struct {
	poke chan struct{}

	mu      sync.Mutex
	pending pending
}

// pending is a set of merged hints. Each of them keeps the arrival time of the first hint that was merged into it.
type pending struct {
	everything bool
	at         time.Time // when the first hint for everything arrived
	source     string    // that hint's source
	cards      map[string]Hint
	nodes      map[string]Hint
	policy     *Policy  // the newest policy, or nil if it is unchanged
	forgotten  []string // absent cards that were passed to [Inventory.Forget]
}

func newHints() *hints { return &hints{poke: make(chan struct{}, 1)} }

func (h *hints) add(hint Hint) {
	h.mu.Lock()
	h.pending.merge(hint)
	h.mu.Unlock()
	h.wake()
}

func (h *hints) use(p Policy) {
	h.mu.Lock()
	h.pending.policy = &p
	h.mu.Unlock()
	h.wake()
}

func (h *hints) forget(card string) {
	h.mu.Lock()
	h.pending.forgotten = append(h.pending.forgotten, card)
	h.mu.Unlock()
	h.wake()
}

func (h *hints) wake() {
	select {
	case h.poke <- struct{}{}:
	default: // already poked; the loop will take the merged hints
	}
}

func (h *hints) take() pending {
	h.mu.Lock()
	defer h.mu.Unlock()
	p := h.pending
	h.pending = pending{}
	return p
}

func (p *pending) merge(hint Hint) {
	switch {
	case hint.Card != "":
		p.cards = keepFirst(p.cards, hint.Card, hint)
	case hint.Node != "":
		p.nodes = keepFirst(p.nodes, hint.Node, hint)
	default:
		p.all(hint)
	}
	if len(p.cards)+len(p.nodes) > maxPending {
		p.all(hint)
		p.nodes = nil
		// Keep the hints saying that the kernel gave up recovering a card, because a listing wouldn't reveal that.
		// There is at most one such hint per PCI device.
		maps.DeleteFunc(p.cards, func(_ string, h Hint) bool { return !h.RecoveryFailed })
	}
}

func (p *pending) all(hint Hint) {
	if !p.everything {
		p.everything, p.at, p.source = true, hint.At, hint.Source
	}
}

func keepFirst(m map[string]Hint, key string, hint Hint) map[string]Hint {
	if m == nil {
		m = make(map[string]Hint)
	}
	if first, ok := m[key]; ok {
		first.RecoveryFailed = first.RecoveryFailed || hint.RecoveryFailed
		hint = first
	}
	m[key] = hint
	return m
}
