package inventory

import (
	"context"
	"maps"
	"slices"
	"time"

	"b-com.com/accelerator-device-plugin/internal/event"
)

// Holding is a device that is held under one name.
type Holding struct {
	As      string   // the name under which it was given out
	Holders []string // namespace/pod/container; empty: given out, it is not known yet to whom
	// Nodes are the names and numbers (MAJOR:MINOR) of the nodes that the holders were
	// given. If they are not known, NodesErr is the reason.
	Nodes    []string
	NodesErr error
}

// heldAs returns how a device is held under a name. A device that has no name is held
// under any.
func heldAs(holdings []Holding, name string) (Holding, bool) {
	i := slices.IndexFunc(holdings, func(h Holding) bool { return name == "" || h.As == name })
	if i < 0 {
		return Holding{}, false
	}
	return holdings[i], true
}

func nodesGiven(holdings []Holding) []string {
	var all []string
	for _, h := range holdings {
		all = append(all, h.Nodes...)
	}
	return all
}

// holders is what the node knows of the holders of devices.
type holders struct {
	held   map[string][]Holding // the newest answer; nil: none yet
	heldAt time.Time            // when it was asked for
	err    string               // why the newest question failed, ""
	blind  bool                 // by the newest answer, the nodes of a held device are not known
	record map[string][]Holding // holdings of before the start, until there is an answer
	began  time.Time            // the start

	ask   time.Time // when the node wants the next answer; zero: whenever
	again bool      // the newest answer is older than something that it should tell about
	doubt time.Time // until when a device that was free may turn out to be held
}

// of returns the holdings of the device with this id, by the newest answer, or by the
// record until there is an answer.
func (h *holders) of(id string) []Holding {
	if h.held == nil {
		return h.record[id]
	}
	return h.held[id]
}

const (
	// answerWithin is how long an answer may take.
	answerWithin = 2 * time.Second
	// untilHeard is the longest time between two questions before the first answer.
	untilHeard = time.Second
	// maxMissing bounds the claims on devices that were never seen here: the kubelet is
	// believed, but not without limit.
	maxMissing = 1024
	// maxID is the longest id in bytes that is taken for one: ours have 19 at most, the
	// kubelet documents 63.
	maxID = 63
)

// takeAnswer takes in who holds which device. It ends the claims on devices that are free, and
// begins those on devices that are held and missing, or held under another name. asked is when
// the question was asked: the answer cannot tell what happened after that.
func (n *node) takeAnswer(answer map[string][]Holding, asked, now time.Time) {
	h := &n.holders
	before := h.held
	if before == nil {
		before = h.record
	}
	if answer == nil {
		answer = map[string][]Holding{}
	}
	h.held, h.heldAt, h.record = answer, asked, nil

	concerned := maps.Clone(n.waiting)
	for id, was := range before {
		concerned[id] = true
		if len(answer[id]) == 0 {
			s := n.slot(id)
			given := nodesGiven(was)
			s.released = released{given, slices.Concat(given, s.lost.nodes), asked}
			h.askOn(asked, n.rules.grace)
		}
	}
	for id := range answer {
		concerned[id] = true
	}
	sameNodes := func(a, b Holding) bool { return slices.Equal(a.Nodes, b.Nodes) }
	for _, id := range slices.Sorted(maps.Keys(concerned)) {
		s, is := n.slot(id), answer[id]
		changed := !slices.EqualFunc(before[id], is, sameNodes)
		if !s.released.since.IsZero() {
			if len(is) > 0 || asked.Sub(s.released.since) >= releasedAfter*n.rules.interval {
				s.released = released{}
			}
			changed = true // this answer may have been the second one
		}
		if len(s.lost.nodes) > 0 && len(is) == 0 {
			if s.lost.since.After(asked) {
				h.again = true
			} else {
				s.lost, changed = lost{}, true
			}
		}
		if changed {
			n.claimNodes(s)
		}
		if c := s.claim; c != nil {
			holding, isHeld := heldAs(is, c.device.OfferedAs)
			c.free = !isHeld && !c.since.After(asked)
			switch {
			case isHeld:
				n.confirm(s, holding)
			case !c.free:
				h.again = true
			default:
				h.askOn(asked, n.rules.grace)
				if !n.isFormer(s) {
					n.release(s, "free", now)
				}
			}
		}
		switch {
		case s.claim != nil || len(is) == 0:
		case s.unit == nil:
			if n.complete {
				n.raise(s, is[0], now)
			}
		default:
			if _, ok := heldAs(is, s.device.OfferedAs); !ok || s.device.OfferedAs == "" {
				n.mark(id, time.Time{})
			}
		}
	}
	blind := slices.ContainsFunc(slices.Collect(maps.Values(answer)), func(all []Holding) bool {
		return slices.ContainsFunc(all, func(h Holding) bool { return h.NodesErr != nil })
	})
	if blind != h.blind {
		h.blind = blind
		for _, d := range n.devices {
			n.mark(d.ID, time.Time{})
		}
	}
}

// askOn has the question repeated for some time, and at least once, after an answer that a
// device is free: a kubelet that has just started may not know its pods yet.
func (h *holders) askOn(asked time.Time, grace time.Duration) {
	h.doubt = asked.Add(max(grace, time.Nanosecond))
}

// raise begins a claim on a device that is held and not here.
func (n *node) raise(s *slot, h Holding, now time.Time) {
	address := addressOf(s.id)
	if s.id == "" || len(s.id) > maxID || len(n.waiting) >= maxMissing {
		return
	}
	if c := n.cards[address]; c != nil && !c.read { // which devices it has is not known yet
		n.holders.ask = earlier(n.holders.ask, now.Add(n.rules.interval))
		return
	}
	d := &Device{ID: s.id, OfferedAs: h.As, Health: Unhealthy, PCIAddress: address, NUMANode: -1, PortID: -1}
	if address != "" {
		d.PortID = portOf(s.id)
	}
	s.claim = &claim{device: d, since: now}
	n.waiting[s.id] = true
	n.confirm(s, h)
}

// finish takes note that each card has been read or given up: a device that is held and not
// here is missing.
func (n *node) finish(now time.Time) {
	n.complete = true
	for _, id := range slices.Sorted(maps.Keys(n.holders.held)) {
		if s := n.slot(id); s.unit == nil && s.claim == nil && len(n.holders.held[id]) > 0 {
			n.raise(s, n.holders.held[id][0], now)
		}
	}
}

// expiry returns when a state that began at since, and that waits for an answer, ends if
// no answer comes.
func (n *node) expiry(since time.Time) time.Time {
	if n.holders.heldAt.After(since) {
		since = n.holders.heldAt
	}
	return since.Add(n.rules.grace)
}

// expire ends the claims and rights about which nobody has been able to tell for the grace time.
func (n *node) expire(now time.Time) {
	if n.holders.err == "" {
		return
	}
	over := func(since time.Time) bool { return !since.IsZero() && !now.Before(n.expiry(since)) }
	for _, id := range slices.Sorted(maps.Keys(n.waiting)) {
		s := n.slots[id]
		if s.claim != nil && over(s.claim.since) {
			n.release(s, "not known for "+n.rules.grace.String(), now)
		}
		if over(s.lost.since) {
			s.lost = lost{}
			n.claimNodes(s)
		}
		if over(s.released.since) {
			s.released = released{}
			n.claimNodes(s)
		}
	}
	if record := n.holders.record; len(record) > 0 && over(n.holders.began) {
		n.holders.record = nil
		for _, id := range slices.Sorted(maps.Keys(record)) {
			n.claimNodes(n.slot(id))
		}
	}
}

// nextExpiry returns when [node.expire] has something to end; zero: never.
func (n *node) nextExpiry() (next time.Time) {
	if n.holders.err == "" {
		return next
	}
	over := func(since time.Time) {
		if !since.IsZero() {
			next = earlier(next, n.expiry(since))
		}
	}
	for id := range n.waiting {
		s := n.slots[id]
		if s.claim != nil {
			over(s.claim.since)
		}
		over(s.lost.since)
	}
	if len(n.holders.record) > 0 {
		over(n.holders.began)
	}
	return next
}

// poller asks who holds what, one question at a time. Only the loop uses it.
type poller struct {
	*Inventory
	node      *node
	scheduler *scheduler // for its goroutines
	answers   chan answer
	asking    bool      // a question is under way
	since     time.Time // answers to questions of before do not count for heard
	again     bool      // another one follows it
	heard     bool      // a question was answered, or failed
	next      time.Time // when to ask again; zero: not
}

// answer is the answer to one question.
type answer struct {
	asked time.Time
	held  map[string][]Holding
	err   error
}

// ask asks, outside the loop. While a question is under way another one follows it.
func (p *poller) ask(ctx context.Context) {
	p.next = time.Time{}
	if p.cfg.Holders == nil {
		p.heard = true
		return
	}
	if p.asking {
		p.again = true
		return
	}
	p.asking, p.again = true, false
	p.scheduler.readers.Go(func() {
		a := answer{asked: time.Now()}
		asking, cancel := context.WithTimeout(ctx, answerWithin)
		defer cancel()
		a.held, a.err = p.cfg.Holders(asking)
		select {
		case p.answers <- a:
		case <-ctx.Done():
		}
	})
}

// askIdly asks though no device waits for the answer: a kubelet that cannot answer is to be
// known before a card is pulled, not after.
func (p *poller) askIdly(ctx context.Context) {
	if !p.asking && p.next.IsZero() && time.Since(p.node.holders.heldAt) >= p.cfg.HoldersInterval {
		p.ask(ctx)
	}
}

// take takes an answer.
func (p *poller) take(ctx context.Context, a answer, now time.Time) {
	h := &p.node.holders
	p.asking, p.heard = false, p.heard || !a.asked.Before(p.since)
	p.cfg.Metrics.HoldersAsked(a.err)
	before, blind := h.err, h.blind
	h.err = ""
	if a.err != nil {
		h.err = a.err.Error()
	} else {
		p.node.takeAnswer(a.held, a.asked, now)
	}
	p.node.expire(now)
	switch {
	case a.err != nil && before == "":
		p.log.Warn("holders not known, removed devices stay listed for the grace time", event.HoldersUnknown,
			event.Err(a.err), event.Grace(p.cfg.TombstoneGrace))
	case a.err == nil && before != "":
		p.log.Info("holders known again", event.HoldersKnown)
	}
	if h.blind != blind {
		p.logBlind(h)
	}
	switch {
	case p.again, h.again:
		p.ask(ctx)
	case h.heldAt.IsZero(): // devices may be held under another name than they are offered
		p.next = a.asked.Add(min(p.cfg.HoldersInterval, untilHeard))
	case a.asked.Before(h.doubt): // at least twice before a released device is offered
		p.next = a.asked.Add(min(p.cfg.HoldersInterval, max(p.cfg.RecoveryHold/2, time.Second)))
	case h.blind, a.err != nil:
		p.next = a.asked.Add(p.cfg.HoldersInterval)
	}
	h.again = false
}

// logBlind logs that the nodes of held devices are not known, or known again.
func (p *poller) logBlind(h *holders) {
	if !h.blind {
		p.log.Info("nodes of held devices known", event.NodesKnown)
		return
	}
	var ids []string
	var why error
	for _, id := range slices.Sorted(maps.Keys(h.held)) {
		for _, holding := range h.held[id] {
			if holding.NodesErr != nil {
				ids, why = append(ids, id), holding.NodesErr
			}
		}
	}
	p.log.Warn("nodes of held devices not known, free devices are withheld", event.NodesUnknown, event.Devices(slices.Compact(ids)), event.Err(why))
}

// follow plans the next question by what the node wants.
func (p *poller) follow(ctx context.Context, now time.Time) {
	h := &p.node.holders
	switch want := h.ask; {
	case !want.IsZero() && !want.After(now):
		p.ask(ctx)
	case !want.IsZero():
		p.next = earlier(p.next, want)
	}
	h.ask = time.Time{}
	if len(p.node.waiting) > 0 && p.next.IsZero() && !p.asking && p.cfg.Holders != nil {
		p.next = now.Add(p.cfg.HoldersInterval)
	}
}

// takeTime does what the clock has called for.
func (p *poller) takeTime(ctx context.Context, now time.Time) {
	p.node.expire(now)
	if !p.next.IsZero() && !now.Before(p.next) {
		p.ask(ctx)
	}
}
