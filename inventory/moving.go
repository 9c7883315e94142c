package inventory

import (
	"time"

	"b-com.com/accelerator-device-plugin/internal/event"
)

// name decides what a device is offered as. One that is offered or held as
// something else keeps that name, behind a tombstone, until nobody holds it so.
func (l *loop) name(c *card, p *port, d *Device, now time.Time) {
	if l.policy.Name == nil {
		return
	}
	name, lacks := l.policy.Name(d)
	l.sayNameless(p, d.ID, lacks, now)
	t := l.tombstones[d.ID]
	if old := p.device; t == nil && old != nil && old.OfferedAs != "" && old.OfferedAs != name && !p.free && l.cfg.Holders != nil {
		if l.mayBeHeld(p, old) {
			t = l.moving(c, p, old, identityOf(old), now)
		}
		l.holders.next = now
	}
	if t == nil && p.device == nil {
		t = l.keepName(c, p, d, name, now)
	}
	p.free = false
	switch {
	case t == nil:
		d.OfferedAs = name
		return
	case t.moved && t.device.OfferedAs == name:
		d.OfferedAs = name
		l.stay(t, p)
		return
	case t.moved:
		t.replaced = name != ""
		if t.reason() == ReasonReplacedInUse {
			p.health.forgive(ReasonMoving) // it is what that has come to
		}
	}
	d.OfferedAs = t.device.OfferedAs
}

// mayBeHeld says whether somebody may hold a device as what it was: we have offered
// it, or the newest answer says so. A rule for an AFU does not match a port that has
// just come and stands unbound: that one need not wait to become what it is.
func (l *loop) mayBeHeld(p *port, was *Device) bool {
	_, held := heldAs(l.holders.held[was.ID], was.OfferedAs)
	return held || p.health.offered
}

// moving puts up a tombstone for what a device was until now. It is the device
// itself that stands in its place.
func (l *loop) moving(c *card, p *port, was *Device, what identity, now time.Time) *tombstone {
	t := &tombstone{device: markerOf(was), port: p, what: what, left: now, place: c, moved: true}
	l.tombstones[was.ID] = t
	return t
}

// stay takes the tombstone of a device away that is again what it was.
func (l *loop) stay(t *tombstone, p *port) {
	delete(l.tombstones, t.device.ID)
	p.health.forgive(ReasonMoving, ReasonReplacedInUse)
	say := l.log.Debug
	if t.held {
		say = l.log.Info
	}
	d, away, holders := t.device, time.Since(t.left), t.holders
	l.later(func() {
		say("device is what it was", event.DeviceReturned, event.Device(d.ID), event.PCI(d.PCIAddress),
			event.Resource(d.OfferedAs), event.Lasted(away), event.Holders(holders))
	})
}

// letMove lets what is in the place of a tombstone be offered as what it is. To
// have waited for that is nothing that it has to recover from.
func (l *loop) letMove(t *tombstone) {
	if t.place == nil {
		return
	}
	p := t.place.byID[t.device.ID]
	p.free = true
	if t.moved {
		p.health.forgive(ReasonMoving, ReasonReplacedInUse)
	}
}

// keepNames gives devices that are held as something else than they are offered as
// the name back that they are held under: they were given out before we came.
func (l *loop) keepNames(now time.Time) {
	if l.policy.Name == nil {
		return
	}
	for _, d := range l.devices {
		if l.tombstones[d.ID] != nil || len(l.holders.held[d.ID]) == 0 {
			continue
		}
		c, p := l.find(d.ID)
		if t := l.keepName(c, p, d, d.OfferedAs, now); t != nil {
			l.refresh(t)
		}
	}
}

// keepName puts up a tombstone for a device that is held, by the newest answer, but
// not as NAME, and returns it; else nil.
func (l *loop) keepName(c *card, p *port, d *Device, name string, now time.Time) *tombstone {
	holdings := l.holders.held[d.ID]
	if _, ok := heldAs(holdings, name); ok && name != "" || len(holdings) == 0 {
		return nil
	}
	was := *d
	was.OfferedAs = holdings[0].As
	t := l.moving(c, p, &was, identity{}, now) // its name is all that is known of it
	l.noteHeld(t, holdings[0])
	if !l.holders.asking {
		l.holders.next = l.holders.heldAt.Add(l.cfg.HoldersInterval) // at once, if that is long past
	}
	return t
}

// find returns the port that a listed device stands for, and its card.
func (l *loop) find(id string) (*card, *port) {
	for _, c := range l.cards {
		if p := c.byID[id]; p != nil {
			return c, p
		}
	}
	return nil, nil
}

// sayNameless says once that a device is not offered because of what it lacks. A
// port that has just come may lack it for some milliseconds.
func (l *loop) sayNameless(p *port, id string, lacks error, now time.Time) {
	switch {
	case lacks == nil:
		p.nameless, p.said = time.Time{}, false
	case p.nameless.IsZero():
		p.nameless = now
	case !p.said && now.Sub(p.nameless) >= l.cfg.HealthInterval:
		p.said = true
		l.log.Info("device is not offered", event.DeviceUnoffered, event.Device(id), event.Reason(lacks.Error()))
	}
}
