package inventory

import (
	"maps"
	"slices"
	"time"
)

// Holding is a device that is held under one name.
type Holding struct {
	As      string   // the name under which the device was given out
	Holders []string // namespace/pod/container; empty: the device was given out, and the container is not known yet
	// Nodes has the names and numbers (MAJOR:MINOR) of the nodes that the holders were
	// given. If they are not known, NodesErr has the error.
	Nodes    []string
	NodesErr error
	// Later has further names and numbers, of nodes that the holders may have been given since, when a container was
	// started again (CDI). They are reserved like Nodes, but a device that has only these has other nodes than its
	// holders were given.
	Later []string
	// Given has the Family, PCIID, AFUID and InterfaceID of the device that the holders were given, so that
	// another card in its slot is recognized after a restart; nil: not known.
	Given *Device
	// OtherAPI means that the device is held through the other API of Kubernetes: with the device
	// plugin through DRA, and the reverse. No device with such a holding is offered.
	OtherAPI bool
	// AnyAFU means that the device remains the same when its AFU changes, because its holders program it.
	AnyAFU bool
}

// Partial is the error of an answer of [Config.Holders] that has all devices that are held through the API of this
// daemon, but may lack those that are held through the other API.
type Partial struct{ Err error }

func (e Partial) Error() string { return e.Err.Error() }
func (e Partial) Unwrap() error { return e.Err }

// holders has the newest answer about the holders of devices.
type holders struct {
	held   map[string][]Holding // the newest answer; nil: none yet
	heldAt time.Time            // time of its question
	err    string               // of the newest question; "": it was answered
	blind  bool                 // in the newest answer, the nodes of a held device are not known
	record map[string][]Holding // holdings at the start, until there is an answer
	began  time.Time            // the start

	awaits  bool     // devices may be held through the other API, which no answer has shown yet
	partial bool     // the newest answer was partial
	unknown []string // in the newest answer, ids that are held through the other API with nodes that are not known

	firstAt time.Time // time of the question of the first answer
	awaited bool      // in the newest answer, the holder of a device is not known yet

	ask      time.Time // when the next question is needed; zero: the node needs none
	again    bool      // the newest answer is older than a claim that needs an answer
	askUntil time.Time // questions are repeated until then, because a free device may turn out to be held
}

// keepElsewhere adds the newest holdings through the other API to a partial answer.
func (h *holders) keepElsewhere(answer map[string][]Holding) {
	for id, all := range h.held {
		for _, holding := range all {
			if _, has := heldAs(answer[id], holding.As); holding.OtherAPI && !has {
				answer[id] = append(answer[id], holding)
			}
		}
	}
}

// of returns the holdings of the device with this id, from the newest answer, or from the record
// until there is an answer.
func (h *holders) of(id string) []Holding {
	if h.held == nil {
		return h.record[id]
	}
	return h.held[id]
}

// holder is a container that holds a device, by the answers.
type holder struct {
	holderKey
	since  time.Time // time of the question of the first answer with the holder
	logged bool
	gone   time.Time // time of the question of the first answer without it; zero: the newest answer has it
}

// holderKey is the name under which a container holds a device, and the name of the container.
type holderKey struct{ as, name string }

const (
	// confirmAfter is the time from an allocation to the question for its holder. The kubelet admits
	// the pod within milliseconds, unless the pod waits for other devices; then the time to the next
	// question is four times as long, up to [Config.HoldersInterval].
	confirmAfter = 250 * time.Millisecond
	// answerWithin is how long an answer may take.
	answerWithin = 2 * time.Second
	// untilAnswered is the longest time between two questions before the first answer, and
	// untilOffered while no device is offered before it.
	untilAnswered = time.Second
	untilOffered  = 250 * time.Millisecond
	// confirmFree is the least time between the two questions whose answers must have no holder before a
	// device that was held through the other API is free.
	confirmFree = time.Second
	// maxMissing limits the claims on devices that this process has never read: no such claim begins
	// while this many slots wait. The answer of a broken kubelet may have any number of such devices.
	maxMissing = 1024
	// maxID is the greatest length in bytes of an id that is accepted: ours have 19 at most, the
	// kubelet documents 63.
	maxID = 63
)

// takeAnswer applies an answer about holders. It ends the claims on devices that are free, and
// begins claims on devices that are held and missing, or held under another name. asked is the time
// of the question: the answer may lack later allocations.
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
		if _, other := heldElsewhere(was); len(answer[id]) == 0 && (!n.rules.certain || other) {
			s := n.slot(id)
			given := nodesGiven(was)
			s.released = released{given, slices.Concat(given, s.lost.nodes), asked}
			h.keepAsking(asked, n.rules.grace)
		}
	}
	for id := range answer {
		concerned[id] = true
	}
	sameNodes := func(a, b Holding) bool { return slices.Equal(a.Nodes, b.Nodes) && slices.Equal(a.Later, b.Later) }
	for _, id := range slices.Sorted(maps.Keys(concerned)) {
		s, is := n.slot(id), answer[id]
		n.takeHolders(s, is, asked)
		changed := !slices.EqualFunc(before[id], is, sameNodes)
		if !s.released.since.IsZero() {
			if len(is) > 0 || asked.Sub(s.released.since) >= releasedAfter*n.rules.interval {
				s.released = released{}
			}
			changed = true // this answer may be the second one without holders
		}
		if len(s.lost.nodes) > 0 && len(is) == 0 {
			if s.lost.since.After(asked) {
				h.again = true
			} else {
				s.lost, changed = lost{}, true
			}
		}
		if changed {
			n.reserveNodes(s)
		}
		if c := s.claim; c != nil {
			holding, isHeld := heldAs(is, c.device.OfferedAs)
			c.free = !isHeld && !c.since.After(asked)
			switch {
			case isHeld:
				c.missing = time.Time{}
				n.confirm(s, holding)
			case c.free && c.other && !c.isMissing(asked):
				c.free = false
				h.ask = earlier(h.ask, c.missing.Add(confirmFree))
			case !c.free:
				h.again = true
			default:
				h.keepAsking(asked, n.rules.grace)
				if !n.isFormer(s) {
					n.release(s, "free", now)
				}
			}
		}
		switch {
		case s.claim != nil || len(is) == 0:
		case s.unit == nil:
			if n.complete {
				n.claimMissing(s, is, now)
			}
		default:
			_, ok := heldAs(is, s.device.OfferedAs)
			if _, other := heldElsewhere(is); !ok || other || s.device.OfferedAs == "" {
				n.mark(id, time.Time{})
			}
		}
	}
	blind := slices.ContainsFunc(slices.Collect(maps.Values(answer)), func(all []Holding) bool {
		return slices.ContainsFunc(all, func(h Holding) bool { return h.NodesErr != nil && !h.OtherAPI })
	})
	if unknown := unknownNodes(answer); !slices.Equal(unknown, h.unknown) {
		h.unknown = unknown
		n.markAll()
	}
	if blind != h.blind {
		h.blind = blind
		n.markAll()
	}
}

// markAll marks all listed devices.
func (n *node) markAll() {
	for _, d := range n.devices {
		n.mark(d.ID, time.Time{})
	}
}

// isMissing reports whether two answers have shown no holder. asked is the time of the question of the newest
// one, which has none.
func (c *claim) isMissing(asked time.Time) bool {
	if c.missing.IsZero() {
		c.missing = asked
	}
	return asked.Sub(c.missing) >= confirmFree
}

// offer ends the wait for the first answer about holders through the other API.
func (n *node) offer() {
	if n.holders.awaits {
		n.holders.awaits, n.changed = false, true
		n.markAll()
	}
}

// takeHolders updates the holders of a slot by an answer, and adds changes for the holders that have
// ended. A holder has ended if one answer lacks it and has other holders, or if there is a claim.
// Otherwise two answers must lack it: those of a kubelet that has just started do not have all
// holders.
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

// noteHolders adds changes of this kind for the holders: one for each name under which they hold the
// device.
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

// noteGiven adds changes for the holders that have not been logged. The device of the slot must be
// listed.
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

// ending reports whether the newest answer lacks a holder of the slot, which another answer must
// confirm.
func (s *slot) ending() bool {
	return slices.ContainsFunc(s.holders, func(h holder) bool { return !h.gone.IsZero() })
}

// namesOf returns the names of the holders in all holdings of a device.
func namesOf(holdings []Holding) (names []string) {
	for _, h := range holdings {
		names = append(names, h.Holders...)
	}
	return names
}

// keepAsking repeats the question for the grace time, and at least once, after an answer without
// holders of a device: the answers of a kubelet that has just started may not have all holders.
func (h *holders) keepAsking(asked time.Time, grace time.Duration) {
	h.askUntil = asked.Add(max(grace, time.Nanosecond))
}

// claimMissing begins a claim on a device that is held and missing.
//
// There is no such claim on a device that is held through the other API. The kubelet does not ask this daemon for
// the health of the device, and a device that is plugged in is withheld without a claim, too.
func (n *node) claimMissing(s *slot, held []Holding, now time.Time) {
	i := slices.IndexFunc(held, func(h Holding) bool { return !h.OtherAPI })
	if i < 0 {
		return
	}
	h := held[i]
	address := addressOf(s.id)
	if s.id == "" || len(s.id) > maxID || len(n.waiting) >= maxMissing {
		return
	}
	if c := n.cards[address]; c != nil && !c.read { // the devices of the card are not known yet
		n.holders.ask = earlier(n.holders.ask, now.Add(n.rules.interval))
		return
	}
	s.claim = claimOf(s.id, h, now)
	n.waiting[s.id] = true
	n.confirm(s, h)
}

// claimOf returns a claim on a device of which only a holding is known.
func claimOf(id string, h Holding, now time.Time) *claim {
	d := &Device{ID: id, OfferedAs: h.As, Health: Unhealthy, PCIAddress: addressOf(id), NUMANode: -1, PortID: -1}
	if d.PCIAddress != "" {
		d.PortID = portOf(id)
	}
	if h.Given != nil {
		d.Family, d.PCIID, d.AFUID, d.InterfaceID = h.Given.Family, h.Given.PCIID, h.Given.AFUID, h.Given.InterfaceID
	}
	return &claim{device: d, identity: identityOf(d), since: now}
}

// finish handles the end of the first listing, when each card has been read or given up. It begins
// claims on the devices that are held and missing.
func (n *node) finish(now time.Time) {
	n.complete = true
	for _, id := range slices.Sorted(maps.Keys(n.holders.held)) {
		if s := n.slot(id); s.unit == nil && s.claim == nil && len(n.holders.held[id]) > 0 {
			n.claimMissing(s, n.holders.held[id], now)
		}
	}
	n.markUnknown()
}

// expiry returns the time at which a state that began at since, and waits for an answer, ends
// without an answer.
func (n *node) expiry(since time.Time) time.Time {
	if n.holders.heldAt.After(since) {
		since = n.holders.heldAt
	}
	return since.Add(n.rules.grace)
}

// expire ends the claims and reservations that have waited for an answer for the grace time.
func (n *node) expire(now time.Time) {
	if n.holders.awaits && !now.Before(n.holders.began.Add(n.rules.grace)) {
		n.offer()
	}
	if n.holders.err == "" {
		return
	}
	over := func(since time.Time) bool { return !since.IsZero() && !now.Before(n.expiry(since)) }
	for _, id := range slices.Sorted(maps.Keys(n.waiting)) {
		s := n.slots[id]
		if s.claim != nil && !s.claim.other && over(s.claim.since) {
			n.release(s, "not known for "+n.rules.grace.String(), now)
		}
		if over(s.lost.since) {
			s.lost = lost{}
			n.reserveNodes(s)
		}
		if over(s.released.since) {
			s.released = released{}
			n.reserveNodes(s)
		}
	}
	if record := n.holders.record; len(record) > 0 && over(n.holders.began) {
		n.holders.record = nil
		for _, id := range slices.Sorted(maps.Keys(record)) {
			n.reserveNodes(n.slot(id))
		}
	}
}

// nextExpiry returns the time at which [node.expire] next ends a claim or a reservation, or zero.
func (n *node) nextExpiry() (next time.Time) {
	if n.holders.awaits {
		next = n.holders.began.Add(n.rules.grace)
	}
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
		if s.claim != nil && !s.claim.other {
			over(s.claim.since)
		}
		over(s.lost.since)
	}
	if len(n.holders.record) > 0 {
		over(n.holders.began)
	}
	return next
}
