package inventory

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"

	"b-com.com/accelerator-device-plugin/internal/event"
)

// judge judges a device by the last reading of its port, by what is wrong with
// its whole card, and by what the operator says.
func (l *loop) judge(c *card, p *port, id string, now time.Time) {
	d := p.describe(id, c.address)
	l.name(c, p, d, now)
	read := slices.Concat(l.policy.apply(slices.Clone(p.wrong)), c.awaits(p, now), c.trouble(), l.tombstones.conditions(id), l.judgeNodes(p, d))
	if l.policy.excludes(id) {
		read = append(read, Condition{Reason: ReasonExcluded, Health: Unhealthy})
	}
	v := p.health.judge(now, read, l.rules)
	c.recheckAt(v.recheck)
	d.Health, d.Reasons = v.health, v.reasons
	if d.Health != Unhealthy {
		p.came = time.Time{}
	}
	l.replace(c, p, d, now)
}

// judgeAll judges the devices of a card anew, without a new reading.
func (l *loop) judgeAll(c *card, now time.Time) {
	for _, p := range c.ports {
		l.judge(c, p, p.device.ID, now)
	}
	l.watchClock(c)
}

// unprompted judges a card where no hint about it led: what is new then is not late.
func unprompted(c *card, judge func()) {
	hinted := c.answered
	c.answered = time.Time{}
	judge()
	c.answered = hinted
}

// replace puts a device in the place of its older self, if it differs.
func (l *loop) replace(c *card, p *port, d *Device, now time.Time) {
	old := p.device
	if old != nil && old.equal(d) {
		return
	}
	l.say(c, p, old, d, now)
	if old == nil || old.Health != d.Health {
		p.since = now
	}
	l.touch(c)
	l.enlist(d)
	p.device = d
	switch now := nodesOf(d); {
	case old == nil:
		l.reclaim(d.ID)
	case !slices.Equal(nodesOf(old), now): // of a region: a port has come or gone
		lost := slices.DeleteFunc(nodesOf(old), func(node string) bool { return slices.Contains(now, node) })
		l.owe(d.ID, lost)
	}
}

// enlist puts a device on the list, in the place of one with the same id.
func (l *loop) enlist(d *Device) {
	if i, found := slices.BinarySearchFunc(l.devices, d.ID, compareID); found {
		l.devices[i] = d
	} else {
		l.devices = slices.Insert(l.devices, i, d)
	}
}

// delist takes a device off the list.
func (l *loop) delist(id string) {
	if i, found := slices.BinarySearchFunc(l.devices, id, compareID); found {
		l.devices = slices.Delete(l.devices, i, i+1)
	}
}

// dropOthers sees those devices of a card off whose ids are not among those that
// stay.
func (l *loop) dropOthers(ctx context.Context, c *card, stay []string) {
	stays := make(map[string]bool, len(stay))
	for _, id := range stay {
		stays[id] = true
	}
	for _, p := range c.ports {
		if p.device != nil && !stays[p.device.ID] {
			l.leave(ctx, c, p)
		}
	}
}

// leave sees off the device of a port that is not there any more.
func (l *loop) leave(ctx context.Context, c *card, p *port) {
	d := p.device
	l.touch(c)
	lasted, latency := time.Since(p.since), l.latency(c, time.Now())
	l.later(func() {
		l.cfg.Metrics.Transition(d.Health.String(), "", "")
		l.log.Info("device removed", event.DeviceRemoved, event.Device(d.ID), event.PCI(d.PCIAddress), event.Family(d.Family),
			event.Old(d.Health.String()), event.Lasted(lasted), latency)
	})
	l.awaitRelease(d.ID, false)
	l.bury(ctx, p)
}

// touch notes that there is something to publish because of c.
func (l *loop) touch(c *card) {
	l.change()
	if !c.answered.IsZero() && (l.hinted.IsZero() || c.answered.Before(l.hinted)) {
		l.hinted = c.answered
	}
}

// change notes that the list is about to change. The first change after a
// snapshot leaves that snapshot's list to its readers and goes on with a copy.
func (l *loop) change() {
	if !l.dirty {
		l.devices, l.dirty = slices.Clone(l.devices), true
	}
}

// publish makes a snapshot of what changed. The first one waits for the first
// scan, though not for cards that are slow to answer.
func (l *loop) publish() {
	if !l.ready {
		waits := len(l.first) > 0 || !l.holders.heard
		if l.first == nil || waits && time.Now().Before(l.firstUntil) {
			return
		}
		l.ready, l.dirty = true, true // an empty list is news too
	}
	if !l.complete && len(l.first) == 0 {
		l.complete = true
		l.change()
		l.raise(l.holders.held)
		l.sayIdle()
	}
	if !l.dirty {
		return
	}
	l.version++
	l.store(Snapshot{Version: l.version, Devices: l.devices, Complete: l.complete, Hinted: l.hinted})
	if l.version == 1 {
		n, rev := len(l.devices), l.version
		l.later(func() { l.log.Info("first scan done", event.ScanDone, event.Count(n), event.Rev(rev)) })
	}
	l.dirty, l.hinted = false, time.Time{}
}

// say logs and counts what is new about a device, once that is published.
func (l *loop) say(c *card, p *port, old, d *Device, now time.Time) {
	lasted, latency, trouble := now.Sub(p.since), l.latency(c, now), p.trouble()
	if old == nil {
		// What was like that when we came is worth a warning.
		p.coming = l.ready && pluggedIn(d)
		say := l.log.Info
		if d.Health == Unhealthy && !p.coming && hasNewTrouble(&Device{}, d) {
			say = l.log.Warn
		}
		l.later(func() {
			l.cfg.Metrics.Transition("", d.Health.String(), worst(d))
			say("device added", event.DeviceAdded, event.Device(d.ID), event.PCI(d.PCIAddress), event.Family(d.Family),
				event.Resource(d.OfferedAs), event.Health(d.Health.String()), event.Reasons(d.Reasons), event.AFU(d.AFUID), event.Interface(d.InterfaceID),
				event.Nodes(d.Nodes), event.Parent(d.Parent), latency, trouble)
		})
		return
	}
	p.coming = p.coming && pluggedIn(d)
	say := l.log.Info
	if !p.coming && (d.Health > old.Health || hasNewTrouble(old, d)) {
		say = l.log.Warn
	}
	l.later(func() {
		if old.Health != d.Health || !slices.Equal(old.Reasons, d.Reasons) {
			l.countTurn(old, d)
			say("device health changed", event.DeviceHealth, event.Device(d.ID), event.PCI(d.PCIAddress),
				event.Old(old.Health.String()), event.New(d.Health.String()), event.Reasons(d.Reasons), event.Lasted(lasted), latency, trouble)
		}
		for _, a := range (Change{Old: old, New: d}).Identity() {
			l.cfg.Metrics.IdentityChange(a.Name)
			l.log.Info("device identity changed", event.DeviceIdentity, event.Device(d.ID), event.PCI(d.PCIAddress),
				event.Attribute(a.Name), event.Old(a.Old), event.New(a.New))
		}
	})
}

// later has something said after the next [loop.publish]: a line takes some percent of
// the way to the kubelet. All that makes the story of a device is said so: in order.
func (l *loop) later(say func()) { l.unsaid = append(l.unsaid, say) }

// speak says what there is to say.
func (l *loop) speak() {
	if len(l.unsaid) == 0 {
		return
	}
	runtime.Gosched() // whoever waits for what was just published goes first
	for _, say := range l.unsaid {
		say()
	}
	clear(l.unsaid)
	l.unsaid = l.unsaid[:0]
}

// countTurn counts a change of health, with the reason of one for the worse.
func (l *loop) countTurn(old, d *Device) {
	why := ""
	if d.Health > old.Health {
		why = worst(d)
	}
	if d.Health != old.Health {
		l.cfg.Metrics.Transition(old.Health.String(), d.Health.String(), why)
	}
}

// worst is the gravest reason why a device is not healthy, "" where it is.
func worst(d *Device) string {
	if len(d.Reasons) == 0 {
		return ""
	}
	return d.Reasons[0]
}

// plugging are the reasons that a device has in turn, for some milliseconds each,
// when its card is plugged in: the kernel binds the FME, makes the ports, binds them.
var plugging = [][]string{
	{ReasonFMEUnbound, ReasonNoPort}, {ReasonNoPort}, // of a region
	{ReasonDriverUnbound, ReasonPortMissing}, {ReasonPortMissing}, {ReasonPortMissing, noFilesYet}, // of one with several ports
	{ReasonDriverUnbound}, {noFilesYet},
}

// noFilesYet is of a port that is just being bound: the driver core makes the entry
// driver before the driver's own files (really_probe, drivers/base/dd.c).
const noFilesYet = ReasonUnreadable + "=id"

// pluggedIn says whether nothing is wrong with d but what being plugged in explains.
func pluggedIn(d *Device) bool {
	return slices.ContainsFunc(plugging, func(reasons []string) bool { return slices.Equal(reasons, d.Reasons) })
}

// hasNewTrouble says whether d has a reason that old did not have.
func hasNewTrouble(old, d *Device) bool {
	return slices.ContainsFunc(d.Reasons, func(reason string) bool {
		return !strings.HasPrefix(reason, ReasonRecovering+"=") && !slices.Contains(old.Reasons, reason)
	})
}

// latency is the time since the hint that led here, where it was one.
func (l *loop) latency(c *card, now time.Time) zap.Field {
	if c.answered.IsZero() {
		return zap.Skip()
	}
	return event.Latency(now.Sub(c.answered))
}

// trouble is what the last reading stumbled over, in words.
func (p *port) trouble() zap.Field {
	var errs []error
	for _, c := range p.wrong {
		errs = append(errs, c.Err)
	}
	return event.Err(errors.Join(errs...))
}
