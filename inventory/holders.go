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
	Holders []string // namespace/pod/container; empty: given out, the container is not known yet
	// Nodes has the names and numbers (MAJOR:MINOR) of the nodes that the holders were
	// given. If they are not known, NodesErr is the reason.
	Nodes    []string
	NodesErr error
}

// holders has the newest answer about the holders of devices.
type holders struct {
	held   map[string][]Holding // the newest answer; nil: none yet
	heldAt time.Time            // when it was asked for
	err    string               // of the newest question; "": it was answered
	blind  bool                 // by the newest answer, the nodes of a held device are not known
	record map[string][]Holding // holdings at the start, until there is an answer
	began  time.Time            // the start

	firstAt time.Time // when the first answer was asked for
	awaited bool      // by the newest answer, a device was given out and its holder is not named yet

	ask      time.Time // when the next question is needed; zero: the node needs none
	again    bool      // the newest answer is older than a claim that waits for it
	askUntil time.Time // questions are repeated until then: a free device may turn out to be held
}

// of returns the holdings of the device with this id, by the newest answer, or by the
// record until there is an answer.
func (h *holders) of(id string) []Holding {
	if h.held == nil {
		return h.record[id]
	}
	return h.held[id]
}

// holder is a container that holds a device, by the answers.
type holder struct {
	holderKey
	since  time.Time // the first answer that names it was asked for
	logged bool
	gone   time.Time // the first answer that no longer names it was asked for; zero: the newest one names it
}

// holderKey is the name under which a container holds a device, and that of the container.
type holderKey struct{ as, name string }

const (
	// confirmAfter is the time from an allocation to the question for its holder. The kubelet admits
	// the pod within milliseconds, unless the pod waits for other devices; then the time to the next
	// question is four times as long, up to [Config.HoldersInterval].
	confirmAfter = 250 * time.Millisecond
	// answerWithin is how long an answer may take.
	answerWithin = 2 * time.Second
	// untilAnswered is the longest time between two questions before the first answer.
	untilAnswered = time.Second
	// maxMissing bounds the claims on devices that this process has never read: the answer of
	// a broken kubelet may have any number of them.
	maxMissing = 1024
	// maxID is the length in bytes of the longest id that is accepted: ours have 19 at most,
	// the kubelet documents 63.
	maxID = 63
)

// takeAnswer applies an answer about holders. It ends the claims on devices that are free, and
// begins claims on devices that are held and missing, or held under another name. asked is when
// the question was asked: the answer does not cover later events.
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
	if h.firstAt.IsZero() {
		h.firstAt = asked
	}
	h.awaited = false

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
		n.takeHolders(s, is, asked)
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

// takeHolders updates the holders of a slot by an answer, and adds changes for those that have
// ended. One answer that does not name a holder ends it if it names others, or if there is a claim;
// otherwise two do, because a kubelet that has just started does not name all holders.
func (n *node) takeHolders(s *slot, is []Holding, asked time.Time) {
	known := make(map[holderKey]holder, len(s.holders))
	for _, h := range s.holders {
		known[h.holderKey] = h
	}
	var named, ended, unsure []holder
	still := make(map[holderKey]bool, len(known))
	for _, h := range is {
		n.holders.awaited = n.holders.awaited || len(h.Holders) == 0
		for _, name := range h.Holders {
			key := holderKey{h.As, name}
			if still[key] {
				continue
			}
			still[key] = true
			named = append(named, holder{holderKey: key, since: asked})
			if was, ok := known[key]; ok {
				named[len(named)-1].since, named[len(named)-1].logged = was.since, was.logged
			}
		}
	}
	for _, h := range s.holders {
		switch {
		case still[h.holderKey], !h.logged:
		case h.gone.IsZero() && len(named) == 0 && s.claim == nil:
			h.gone = asked
			unsure = append(unsure, h)
		default:
			if h.gone.IsZero() {
				h.gone = asked
			}
			ended = append(ended, h)
		}
	}
	named = append(named, unsure...)
	if !slices.Equal(s.holders, named) {
		n.mark(s.id, time.Time{})
	}
	s.holders = named
	n.noteHolders(s, deviceFreed, ended)
}

// noteHolders adds one change for the holders under each name of the device.
func (n *node) noteHolders(s *slot, kind kind, all []holder) {
	for len(all) > 0 {
		first, rest := all[0], all[:0:0]
		c := change{Change: Change{ID: s.id, New: s.device}, kind: kind, as: first.as, found: first.since.Equal(n.holders.firstAt)}
		for _, h := range all {
			if h.as != first.as {
				rest = append(rest, h)
				continue
			}
			c.holders, c.lasted = append(c.holders, h.name), max(c.lasted, h.gone.Sub(h.since))
		}
		n.changes = append(n.changes, c)
		all = rest
	}
}

// noteGiven adds changes for the holders that have not been logged. The device of the slot is listed.
func (n *node) noteGiven(s *slot) {
	var fresh []holder
	for i, h := range s.holders {
		if !h.logged && h.gone.IsZero() {
			s.holders[i].logged = true
			fresh = append(fresh, h)
		}
	}
	n.noteHolders(s, deviceGiven, fresh)
}

// ending reports whether a holder of the slot is no longer named, and another answer must confirm it.
func (s *slot) ending() bool {
	return slices.ContainsFunc(s.holders, func(h holder) bool { return !h.gone.IsZero() })
}

// namesOf returns the holders in all holdings of a device.
func namesOf(holdings []Holding) (names []string) {
	for _, h := range holdings {
		names = append(names, h.Holders...)
	}
	return names
}

// askOn has the question repeated for the grace time, and at least once, after an answer that a
// device is free: a kubelet that has just started may not name all holders yet.
func (h *holders) askOn(asked time.Time, grace time.Duration) {
	h.askUntil = asked.Add(max(grace, time.Nanosecond))
}

// raise begins a claim on a device that is held and missing.
func (n *node) raise(s *slot, h Holding, now time.Time) {
	address := addressOf(s.id)
	if s.id == "" || len(s.id) > maxID || len(n.waiting) >= maxMissing {
		return
	}
	if c := n.cards[address]; c != nil && !c.read { // its devices are not known yet
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

// finish records that each card has been read or given up, and begins claims on the devices
// that are held and missing.
func (n *node) finish(now time.Time) {
	n.complete = true
	for _, id := range slices.Sorted(maps.Keys(n.holders.held)) {
		if s := n.slot(id); s.unit == nil && s.claim == nil && len(n.holders.held[id]) > 0 {
			n.raise(s, n.holders.held[id][0], now)
		}
	}
}

// expiry returns the time at which a state that began at since, and waits for an answer, ends
// without one.
func (n *node) expiry(since time.Time) time.Time {
	if n.holders.heldAt.After(since) {
		since = n.holders.heldAt
	}
	return since.Add(n.rules.grace)
}

// expire ends the claims and rights that have waited for an answer for the grace time.
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

// nextExpiry returns the time at which [node.expire] next has something to end, or zero.
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

// poller calls [Config.Holders], one call at a time. Only the loop uses it.
type poller struct {
	*Inventory
	node      *node
	scheduler *scheduler // for its goroutines
	answers   chan answer
	asking    bool          // a question is under way
	again     bool          // another one follows it
	answered  bool          // a question that was asked after since was answered, or failed
	since     time.Time     // the start, or the newest change of the families
	next      time.Time     // when to ask again; zero: not planned
	wait      time.Duration // between the last two questions for the holder of a device that was given out
}

// answer is the answer to one question.
type answer struct {
	asked time.Time
	held  map[string][]Holding
	err   error
}

// ask asks in a goroutine of its own. If a question is under way, another one follows it.
func (p *poller) ask(ctx context.Context) {
	p.next = time.Time{}
	if p.cfg.Holders == nil {
		p.answered = true
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

// askIdly asks although no device waits for the answer, so that it is logged that a kubelet
// does not answer before a card is pulled.
func (p *poller) askIdly(ctx context.Context) {
	if !p.asking && p.next.IsZero() && time.Since(p.node.holders.heldAt) >= p.cfg.HoldersInterval {
		p.ask(ctx)
	}
}

// given plans a question for the holders of devices that have just been given out.
func (p *poller) given(now time.Time) {
	p.wait = min(confirmAfter, p.cfg.HoldersInterval)
	p.next = earlier(p.next, now.Add(p.wait))
}

// take applies an answer and plans the next question.
func (p *poller) take(ctx context.Context, a answer, now time.Time) {
	h := &p.node.holders
	p.asking, p.answered = false, p.answered || !a.asked.Before(p.since)
	p.cfg.Metrics.HoldersAsked(a.err)
	before, blind := h.err, h.blind
	h.err = ""
	if a.err != nil {
		h.err = a.err.Error()
	} else {
		p.node.takeAnswer(a.held, a.asked, now)
		p.holdings.Store(&h.held)
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
	if p.again || h.again {
		p.ask(ctx)
	} else {
		plan := func(after time.Duration) { p.next = earlier(p.next, a.asked.Add(min(p.cfg.HoldersInterval, after))) }
		if h.heldAt.IsZero() { // devices may be held under another name than theirs
			plan(untilAnswered)
		}
		if a.err == nil && h.awaited {
			p.wait = max(4*p.wait, confirmAfter)
			plan(p.wait)
		}
		if a.asked.Before(h.askUntil) { // at least twice before a released device is offered
			plan(max(p.cfg.RecoveryHold/2, time.Second))
		}
		if h.blind || a.err != nil || len(h.held) > 0 { // the end of a holding is noticed
			plan(p.cfg.HoldersInterval)
		}
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

// follow plans the next question for the devices that wait for an answer.
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

// takeTime ends expired claims, and asks if the next question is due.
func (p *poller) takeTime(ctx context.Context, now time.Time) {
	p.node.expire(now)
	if !p.next.IsZero() && !now.Before(p.next) {
		p.ask(ctx)
	}
}
