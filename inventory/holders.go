package inventory

import (
	"cmp"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"
)

// Holding says who holds a device under a particular name.
type Holding struct {
	As      string   // the name under which the device was allocated
	Holders []string // namespace/pod/container; empty if the device was allocated but the container isn't known yet
	// Nodes contains the names and numbers (MAJOR:MINOR) of the nodes that the holders were given. If they aren't
	// known, NodesErr says why.
	Nodes    []string
	NodesErr error
	// Later contains the names and numbers of additional nodes that a holder may have received through CDI when it was
	// restarted. As with the nodes in Nodes, no other device that has one of them is offered. But they don't matter
	// when checking whether a holder's nodes have changed ([ReasonNodeChanged]).
	Later []string
	// Given contains the Family, PCIID, AFUID and InterfaceID of the device that the holders were given, so that after
	// a restart, a different card in its slot can be recognized. It is nil if these aren't known.
	Given *Device
	// Containers lists the containers (POD-UID/NAME) that the kubelet's checkpoint refers to. Some of them, such as
	// init containers, may not be in Holders.
	Containers []string
	// OtherAPI means that the device is held through the API that this daemon doesn't serve: the device plugin's
	// inventory sets it for DRA claims, and the DRA driver's inventory sets it for devices allocated through the device
	// plugin API. No device with such a holding is offered.
	OtherAPI bool
	// Foreign means that another plugin allocated device nodes, possibly including our devices' nodes, under an id that
	// isn't one of ours.
	Foreign bool
	// Perhaps means that only the id suggests that this plugin allocated the device. The device may instead belong to
	// another plugin, whose resource we must not register.
	Perhaps bool
	// AnyAFU means that a device whose AFU changes is still the same device, because its holders program it.
	AnyAFU bool
}

// PodUID returns the UID of the holder's pod, or "" if the UID isn't known or there isn't exactly one holder. UIDs come
// only from the kubelet's checkpoint, which doesn't contain pod names.
func (h Holding) PodUID() string {
	if len(h.Holders) != 1 || len(h.Containers) != 1 {
		return ""
	}
	holder := h.Holders[0]
	uid, found := strings.CutSuffix(h.Containers[0], holder[max(0, strings.LastIndexByte(holder, '/')):])
	if !found {
		return ""
	}
	return uid
}

// Holdings contains what is known about the holders of the node's devices. Package kubelet/holders builds it.
type Holdings struct {
	// Of maps device IDs to holdings. It contains every device that was allocated before the time in Asked. Unless Err
	// is set, all other devices are free.
	Of    map[string][]Holding
	Asked time.Time
	// If Err is non-nil, Of may be incomplete: it contains only devices that were already known. Missing lists all
	// sources that didn't answer, even if Of is complete without them.
	Err     error
	Missing []MissingSource
	// Awaiting means that devices may be held through the other API, and no complete answer has yet shown which ones.
	Awaiting bool
	Unnamed  bool                // a device has just been allocated, and its container isn't known yet
	Again    time.Duration       // ask again after this time, because a holder may have exited; 0 if that isn't needed
	Shared   map[string][]string // devices that several containers hold at once, with their holders
}

// inUse reports whether any of our devices is held.
func (h Holdings) inUse() bool {
	for _, all := range h.Of {
		if slices.ContainsFunc(all, func(h Holding) bool { return !h.Foreign }) {
			return true
		}
	}
	return false
}

// Problem returns the errors of all missing sources, or nil.
func (h Holdings) Problem() error {
	var all []error
	for _, m := range h.Missing {
		all = append(all, m.Err)
	}
	return errors.Join(all...)
}

// MissingSource is a source of holders that didn't answer.
type MissingSource struct {
	Name string // pod-resources, checkpoint or claims
	Err  error
}

// holders is what is known about the devices' holders.
type holders struct {
	Holdings
	taken      bool                 // Holdings is from an answer
	record     map[string][]Holding // the holdings at startup, until there is an answer
	firstAt    time.Time            // time of the first answered query
	answeredAt time.Time            // time of the latest query that was answered without an error
	unknown    []string             // ids of held devices whose holders' nodes aren't known

	askAt time.Time // when the next query is needed; zero if the node doesn't need one
}

// of returns the holdings for a device id. It takes them from the newest answer about holders or, until there is one,
// from [Config.Record].
func (h *holders) of(id string) []Holding {
	if !h.taken {
		return h.record[id]
	}
	return h.Of[id]
}

// holder is a container that holds a device, according to the answers from [Config.Holders].
type holder struct {
	holderKey
	uid    string    // the pod's UID; "" if not known
	since  time.Time // time of the first query whose answer contains the holder
	logged bool
	gone   time.Time // time of the first query whose answer lacks the holder; zero if the newest answer contains it
}

// holderKey identifies a container and the name under which it holds a device.
type holderKey struct{ as, name string }

const (
	// confirmAfter is how soon after an allocation the inventory asks who the holder is. The kubelet admits the pod
	// within milliseconds, unless the pod is waiting for other devices. In that case, the inventory keeps asking,
	// waiting four times as long each time, up to [Config.HoldersInterval].
	confirmAfter = 250 * time.Millisecond
	// answerWithin is how long an answer from [Config.Holders] may take.
	answerWithin = 2 * time.Second
	// untilAnswered is the longest time between queries to [Config.Holders] until the first one is answered.
	untilAnswered = time.Second
	// maxMissing limits the reservations for devices that this process has never read, because a broken kubelet may
	// report any number of them. While maxMissing entries are waiting for an answer, no such reservation is made.
	maxMissing = 1024
	// maxID is the maximum length of an accepted id, in bytes. Our own ids are at most 19 bytes long, and the kubelet's
	// documented limit is 63.
	maxID = 63
)

// takeHoldings updates the node from the newest holdings. It ends reservations for devices that are free, and makes
// reservations for devices that are held but missing or held under another name. stale reports whether some reservation
// is newer than the query and so still needs an answer.
func (n *node) takeHoldings(newest Holdings, now time.Time) (stale bool) {
	h := &n.holders
	if newest.Err != nil && newest.Of == nil { // no source was asked
		h.Err, h.Missing = newest.Err, newest.Missing
		return false
	}
	was, before := h.Holdings, h.Of
	if !h.taken {
		before = h.record
	}
	h.Holdings, h.record, h.taken = newest, nil, true
	if h.firstAt.IsZero() {
		h.firstAt = newest.Asked
	}
	if h.Err == nil {
		h.answeredAt = newest.Asked
	}

	concerned := maps.Clone(n.waiting)
	for _, of := range []map[string][]Holding{before, newest.Of} {
		for id := range of {
			concerned[id] = true
		}
	}
	for _, id := range slices.Sorted(maps.Keys(concerned)) {
		stale = n.takeHolding(n.entry(id), before[id], now) || stale
	}
	for _, shared := range []map[string][]string{was.Shared, newest.Shared} {
		for _, id := range slices.Sorted(maps.Keys(shared)) {
			n.mark(id, time.Time{})
		}
	}
	unknown := unknownNodes(newest.Of)
	if !slices.Equal(unknown, h.unknown) || was.Awaiting != h.Awaiting {
		h.unknown, n.changed = unknown, n.changed || was.Awaiting != h.Awaiting
		n.markAll()
	}
	return stale
}

// takeHolding updates one entry from the newest holdings. before contains the previous holdings of the entry's device.
// stale means the same as in [node.takeHoldings].
func (n *node) takeHolding(e *entry, before []Holding, now time.Time) (stale bool) {
	h := &n.holders
	is := h.Of[e.id]
	n.takeHolders(e, is, h.Asked)
	changed := !slices.EqualFunc(before, is, func(a, b Holding) bool {
		return slices.Equal(a.Nodes, b.Nodes) && slices.Equal(a.Later, b.Later)
	})
	ended, stale := e.endLost(*h)
	if changed || ended {
		n.keepNodes(e)
	}
	if e.reservation != nil {
		stale = n.takeReserved(e, is, now) || stale
	}
	switch {
	case e.reservation != nil || len(is) == 0:
	case e.unit == nil && n.complete:
		n.reserveMissing(e, is, now)
	case e.unit != nil && (e.device.OfferedAs == "" || otherHolding(is, e.device.OfferedAs) != nil):
		n.mark(e.id, time.Time{})
	}
	return stale
}

// endLost stops keeping the nodes that the device has lost if the device has no holder in the newest answer. ended
// reports whether it did so; stale means the same as in [node.takeHoldings].
func (e *entry) endLost(h holders) (ended, stale bool) {
	switch {
	case len(e.lost.nodes) == 0 || len(h.Of[e.id]) > 0:
		return false, false
	case e.lost.since.After(h.Asked):
		return false, true
	case h.Err == nil:
		e.lost = lost{}
		return true, false
	}
	return false, false
}

// takeReserved ends an entry's reservation if the reserved device is free, or updates the device's holders if it is
// held. stale means the same as in [node.takeHoldings].
func (n *node) takeReserved(e *entry, is []Holding, now time.Time) (stale bool) {
	c := e.reservation
	holding, held := heldAs(is, c.device.OfferedAs)
	switch {
	case held:
		c.free = false
		n.confirm(e, holding)
	case c.since.After(n.holders.Asked):
		return true
	case n.holders.Err == nil:
		if c.free = true; !n.isFormer(e) {
			n.release(e, "free", now)
		}
	}
	return false
}

// takeNeeds returns when the node needs an answer about holders, and forgets that time.
func (n *node) takeNeeds() needs {
	at := n.holders.askAt
	n.holders.askAt = time.Time{}
	return needs{at: at, waiting: len(n.waiting) > 0}
}

// markAll marks all listed devices.
func (n *node) markAll() {
	for _, d := range n.devices {
		n.mark(d.ID, time.Time{})
	}
}

// takeHolders updates an entry's holders and records changes for holders that are gone.
func (n *node) takeHolders(e *entry, is []Holding, asked time.Time) {
	known := make(map[holderKey]holder, len(e.holders))
	for _, h := range e.holders {
		known[h.holderKey] = h
	}
	var named, ended []holder
	seen, still := make(map[holderKey]bool, len(known)), make(map[holderKey]bool, len(known))
	for _, h := range is {
		for _, name := range h.Holders {
			key := holderKey{h.As, name}
			if seen[key] || h.Foreign {
				continue
			}
			seen[key] = true
			is := holder{holderKey: key, uid: h.PodUID(), since: asked}
			if was, ok := known[key]; ok && (is.uid == "" || was.uid == "" || is.uid == was.uid) { // otherwise another pod has the same name
				is.uid, is.since, is.logged = cmp.Or(is.uid, was.uid), was.since, was.logged
				still[key] = true
			}
			named = append(named, is)
		}
	}
	for _, h := range e.holders {
		if !still[h.holderKey] && h.logged {
			h.gone = asked
			ended = append(ended, h)
		}
	}
	if !slices.Equal(e.holders, named) {
		n.mark(e.id, time.Time{})
	}
	e.holders = named
	n.noteHolders(e, deviceFreed, ended)
}

// noteHolders records changes of the given kind for these holders of a device: one change for each name under which
// they hold it.
func (n *node) noteHolders(e *entry, kind kind, all []holder) {
	for len(all) > 0 {
		first, rest := all[0], all[:0:0]
		c := change{Change: Change{ID: e.id, New: e.device}, kind: kind, as: first.as, found: first.since.Equal(n.holders.firstAt)}
		for _, h := range all {
			if h.as != first.as {
				rest = append(rest, h)
				continue
			}
			c.holders, c.lasted = append(c.holders, h.name), max(c.lasted, h.gone.Sub(h.since))
			if h.uid != "" {
				c.uids = append(c.uids, h.uid)
			}
		}
		n.changes = append(n.changes, c)
		all = rest
	}
}

// noteGiven records that an entry's device has new holders, which haven't been logged yet. The device must be listed.
func (n *node) noteGiven(e *entry) {
	var fresh []holder
	for i, h := range e.holders {
		if !h.logged {
			e.holders[i].logged = true
			fresh = append(fresh, h)
		}
	}
	n.noteHolders(e, deviceGiven, fresh)
}

// namesOf returns the names of the holders in all of a device's holdings.
func namesOf(holdings []Holding) (names []string) {
	for _, h := range holdings {
		names = append(names, h.Holders...)
	}
	return names
}

// reserveMissing makes a reservation for a device that is held but missing.
//
// It ignores a device that is held through the other API: the kubelet doesn't ask this daemon about such a device's
// health, and the device is withheld when it is plugged in even if there is no reservation. It also ignores a device
// that may be another plugin's, unless its card is on the node.
func (n *node) reserveMissing(e *entry, held []Holding, now time.Time) {
	c := n.cards[addressOf(e.id)]
	i := slices.IndexFunc(held, func(h Holding) bool {
		return !h.OtherAPI && !h.Foreign && !(h.Perhaps && (c == nil || len(c.units) == 0))
	})
	if i < 0 {
		return
	}
	h := held[i]
	if e.id == "" || len(e.id) > maxID || len(n.waiting) >= maxMissing {
		return
	}
	if c != nil && !c.read { // the card's devices aren't known yet
		n.holders.askAt = earlier(n.holders.askAt, now.Add(n.rules.interval))
		return
	}
	e.reservation = reservationOf(e.id, h, now)
	n.waiting[e.id] = true
	n.confirm(e, h)
}

// finish is called at the end of the first listing, when each card has been read or given up on. It makes reservations
// for the devices that are held but missing.
func (n *node) finish(now time.Time) {
	n.complete = true
	for _, id := range slices.Sorted(maps.Keys(n.holders.Of)) {
		if e := n.entry(id); e.unit == nil && e.reservation == nil && len(n.holders.Of[id]) > 0 {
			n.reserveMissing(e, n.holders.Of[id], now)
		}
	}
	n.markUnknown()
}

// expire ends reservations that have been waiting for an answer about holders for longer than the grace time. It also
// stops keeping nodes that a device lost longer ago than that. A reservation for a device that is known to be held
// doesn't expire. expire returns the next time at which a reservation or lost nodes expire, or zero. If any have just
// expired, that time is in the past.
func (n *node) expire(now time.Time) (next time.Time) {
	h := &n.holders
	if h.taken && h.Err == nil {
		return next
	}
	over := func(since time.Time) bool {
		if h.answeredAt.After(since) {
			since = h.answeredAt
		}
		end := since.Add(n.rules.grace)
		next = earlier(next, end)
		return !now.Before(end)
	}
	for _, id := range slices.Sorted(maps.Keys(n.waiting)) {
		e := n.entries[id]
		if len(h.of(id)) > 0 {
			continue
		}
		if e.reservation != nil && over(e.reservation.since) {
			n.release(e, "not known for "+n.rules.grace.String(), now)
		}
		if len(e.lost.nodes) > 0 && over(e.lost.since) {
			e.lost = lost{}
			n.keepNodes(e)
		}
	}
	return next
}
