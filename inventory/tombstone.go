package inventory

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"b-com.com/accelerator-device-plugin/internal/event"
	"b-com.com/accelerator-device-plugin/internal/sysfs"
)

// tombstone stands for a device that left, as long as somebody may hold it: the
// kubelet tells the pod that its device is broken only of one that is listed.
type tombstone struct {
	device  *Device // as it is listed while nothing is in its place
	port    *port   // what is remembered of it; nil: it left before we came
	what    identity
	left    time.Time
	held    bool     // by the newest answer
	holders []string // by the same
	// renumbered: the device is back, under another node.
	renumbered bool
	// replaced: what is in its place now is another one, which must wait.
	replaced bool
	place    *card // what is in its place is a port of this one; nil: nothing is
	// moved: it has not left, but is to be offered as something else. What is in its
	// place is itself.
	moved bool
}

// reason is why a device in this state cannot be given to anybody.
func (t *tombstone) reason() string {
	switch {
	case t.moved && !(t.replaced && t.held):
		return ReasonMoving
	case t.replaced:
		return ReasonReplacedInUse
	case t.renumbered:
		return ReasonNodeChanged
	case t.held:
		return ReasonRemovedInUse
	}
	return ReasonRemoved
}

// tombstones are the loop's, by id.
type tombstones map[string]*tombstone

// conditions is what they say of the device that is in the place of one.
func (ts tombstones) conditions(id string) []Condition {
	if t := ts[id]; t != nil {
		return []Condition{{Reason: t.reason(), Health: Unhealthy}}
	}
	return nil
}

// bury puts up a tombstone for a port that has left, or takes it off the list
// where nobody wants to know who holds it.
func (l *loop) bury(ctx context.Context, p *port) {
	d := p.device
	p.device = nil
	unoffered := l.policy.Name != nil && d.OfferedAs == ""
	if l.cfg.Holders == nil || unoffered {
		l.delist(d.ID)
		l.reclaim(d.ID)
		return
	}
	t := l.tombstones[d.ID]
	if t == nil {
		t = &tombstone{device: markerOf(d), port: p, what: p.what, left: time.Now()}
		l.tombstones[d.ID] = t
	}
	t.replaced, t.moved, t.renumbered, t.place = false, false, false, nil
	l.mark(t)
	l.owe(d.ID, nodesOf(d))
	l.askHolders(ctx)
}

// markerOf is what stands on the list for a device that left.
func markerOf(d *Device) *Device {
	m := *d
	m.Health, m.Reasons, m.Nodes, m.NodeNumbers, m.Parent, m.ParentNodes = Unhealthy, nil, nil, nil, "", nil
	return &m
}

// mark lists a tombstone that has nothing in its place.
func (l *loop) mark(t *tombstone) {
	l.change()
	m := *t.device
	m.Reasons = []string{t.reason()}
	t.device = &m
	l.enlist(t.device)
}

// portAt is the memory for a port that has come: that of the one that left, where
// its tombstone still stands.
func (l *loop) portAt(id string, now time.Time) *port {
	t := l.tombstones[id]
	p := &port{portID: -1}
	if l.ready {
		p.came = now
	}
	if t == nil {
		return p
	}
	if t.port != nil {
		p.health = t.port.health
	}
	p.health.offered = true // or somebody else has: it is held, or may be
	p.health.returned(now, t.reason())
	return p
}

// recognize decides whether what is in the place of a tombstone is the same
// device. Then the tombstone goes; the device has its hold to pass.
func (l *loop) recognize(id string, c *card, p *port) {
	t := l.tombstones[id]
	if t == nil || t.moved {
		return
	}
	t.place = c
	d := p.describe(id, c.address)
	switch like := l.likeness(t, d, p.what); {
	case like == same && len(d.Nodes) == 0 && len(l.owed[id].nodes) > 0:
		t.replaced, t.renumbered = false, false // a region whose ports are yet to come: which nodes it has is not known
	case like == same && l.cameBackElsewhere(d, t.renumbered):
		t.replaced, t.renumbered = false, true
	case like == same:
		delete(l.tombstones, id)
		if !lacks(nodesOf(d), l.owed[id].nodes) {
			delete(l.owed, id)
		}
		address, away, holders := t.device.PCIAddress, time.Since(t.left), t.holders
		l.later(func() {
			l.log.Info("removed device returned", event.DeviceReturned, event.Device(id), event.PCI(address),
				event.Lasted(away), event.Holders(holders))
		})
	default:
		t.replaced, t.renumbered = like == other, false
	}
}

// likeness says whether what is in the place of a tombstone is what left. One that
// left before we came is known by its name alone; without names, anything may be it.
func (l *loop) likeness(t *tombstone, d *Device, what identity) likeness {
	like := t.what.compare(what, l.policy.AnyAFU)
	if l.policy.Name == nil || like != same {
		return like
	}
	switch name, _ := l.policy.Name(d); name {
	case t.device.OfferedAs:
		return same
	case "": // what it lacks may come
		return unknown
	}
	return other
}

// confirm takes note of who holds a device that has left.
func (l *loop) confirm(t *tombstone, h Holding) {
	if t.held && slices.Equal(t.holders, h.Holders) {
		return
	}
	l.noteHeld(t, h)
	l.refresh(t)
}

func (l *loop) noteHeld(t *tombstone, h Holding) {
	t.held, t.holders = true, h.Holders
	l.reclaim(t.device.ID) // a device that has its nodes now is judged again
	message := "removed device is held"
	switch {
	case t.moved:
		message = "device is held as something else"
	case t.renumbered:
		message = "device is held under its former node"
	}
	d := t.device
	l.later(func() {
		l.log.Warn(message, event.DeviceTombstone, event.Device(d.ID), event.PCI(d.PCIAddress),
			event.Resource(d.OfferedAs), event.Holders(h.Holders))
	})
}

// refresh publishes what has become of a tombstone.
func (l *loop) refresh(t *tombstone) {
	id := t.device.ID
	switch {
	case t.place != nil:
		unprompted(t.place, func() { l.judge(t.place, t.place.byID[id], id, time.Now()) })
		l.watchClock(t.place)
	case l.tombstones[id] == t:
		l.mark(t)
	default:
		l.change()
		l.delist(id)
	}
}

// drop takes a tombstone away: nobody holds the device any more, or nobody has
// been able to say so for long enough.
func (l *loop) drop(t *tombstone, why string) {
	delete(l.tombstones, t.device.ID)
	say := l.log.Debug // it was free all along: that it was removed has been said
	if t.held || l.holders.err != "" || t.renumbered || t.replaced && !t.moved {
		say = l.log.Info
	}
	message := "removed device released"
	if t.moved {
		message = "device released"
	}
	d, listed := t.device, time.Since(t.left)
	l.later(func() {
		say(message, event.DeviceReleased, event.Device(d.ID), event.PCI(d.PCIAddress),
			event.Resource(d.OfferedAs), event.Reason(why), event.Lasted(listed))
	})
	l.letMove(t)
	l.refresh(t)
	l.clear(d.ID)
}

// maxMissing bounds the tombstones for devices that were never seen here: the
// kubelet is believed, but not without limit.
const maxMissing = 1024

// raise puts up tombstones for what is held, but is not here, and sees to it that
// it is asked after them.
func (l *loop) raise(held map[string][]Holding) {
	now := time.Now()
	gone := missing(l.devices, held)
	for _, d := range gone {
		if len(l.tombstones) >= maxMissing {
			break
		}
		if c := l.cards[d.PCIAddress]; c != nil && !c.wasRead {
			continue // which ports it has is not known yet
		}
		t := &tombstone{device: d, left: now}
		l.tombstones[d.ID] = t
		l.confirm(t, held[d.ID][0])
	}
	if len(gone)+len(l.tombstones) > 0 && l.holders.next.IsZero() && !l.holders.asking {
		l.holders.next = now.Add(l.cfg.HoldersInterval)
	}
}

// missing lists a device for each one that is held but is not among those of
// this node, sorted by id.
func missing(devices []*Device, held map[string][]Holding) []*Device {
	var missing []*Device
	for _, id := range slices.Sorted(maps.Keys(held)) {
		if _, here := slices.BinarySearchFunc(devices, id, compareID); here || id == "" || len(id) > maxID {
			continue
		}
		d := &Device{
			ID: id, OfferedAs: held[id][0].As, Health: Unhealthy, Reasons: []string{ReasonRemovedInUse},
			PCIAddress: addressOf(id), NUMANode: -1, PortID: -1,
		}
		if d.PCIAddress != "" {
			d.PortID = portOf(id)
		}
		missing = append(missing, d)
	}
	return missing
}

// maxID is the longest id in bytes that is taken for one: ours have 19 at most,
// the kubelet documents 63.
const maxID = 63

// IsAddress says whether an id is one of a device in a PCI slot.
func IsAddress(id string) bool { return addressOf(id) != "" }

// addressOf is the PCI address in an id, "" where there is none.
func addressOf(id string) string {
	card := cardOf(id)
	if strings.Count(card, ":") == 1 {
		card = "0000:" + card
	}
	address, err := sysfs.ParsePCIAddress(card)
	if err != nil || deviceID(address, portOf(id)) != id {
		return ""
	}
	return address
}

// portOf is the hardware port in an id.
func portOf(id string) int {
	_, n, _ := strings.Cut(id, "-p")
	port, err := strconv.Atoi(n)
	if err != nil || port < 0 {
		return 0
	}
	return port
}
