package timeline

import (
	"fmt"
	"time"
)

// state is how a device is, as far as the log says.
type state byte

const (
	unknown state = iota // not seen yet, or nobody watched
	usable               // healthy or degraded
	unhealthy
	gone
)

func stateOf(health []byte) state {
	switch string(health) {
	case "healthy", "degraded":
		return usable
	case "unhealthy":
		return unhealthy
	}
	return unknown
}

// deviceClock follows one device.
type deviceClock struct {
	Device
	watch   *watch // of its origin
	state   state
	since   time.Time
	removed bool // and it has not been said yet that it was held
	missed  bool // gone because a daemon began without it
	former  bool // of another mode than the daemon's
}

// show notes the state's name, once it is known.
func (d *deviceClock) show(name []byte) {
	if stateOf(name) != unknown || string(name) == "gone" {
		d.Last = string(name)
	}
}

// turn ends the present state at t and begins the next. What was before the time
// that is looked at does not count.
func (d *deviceClock) turn(t time.Time, next state) {
	since := d.since
	if since.Before(d.watch.begin) {
		since = d.watch.begin
	}
	if lasted := t.Sub(since); lasted > 0 {
		switch d.state {
		case usable:
			d.Usable += Milliseconds(lasted)
		case unhealthy:
			d.Unhealthy += Milliseconds(lasted)
		case gone:
			d.Gone += Milliseconds(lasted)
		}
	}
	d.state, d.since = next, t
}

// assume takes from a line what was before it, where nothing has been said yet.
func (d *deviceClock) assume(l *line) {
	old := stateOf(l.text("old"))
	if d.state != unknown || old == unknown {
		return
	}
	ms, _ := l.number("lasted_ms")
	d.state, d.since = old, l.time.Add(-fromMilliseconds(ms))
	if d.since.Before(d.watch.first) {
		d.since = d.watch.first
	}
}

// follow takes what an event says of the device's state.
func (d *deviceClock) follow(l *line) {
	d.assume(l)
	switch string(l.event) {
	case "device.added":
		if d.missed { // it was slow to answer, or came then: that is not known
			d.state = unknown
		}
		d.turn(l.time, stateOf(l.text("health")))
		d.show(l.text("health"))
		d.removed, d.missed, d.former = false, false, false
	case "device.health":
		next := stateOf(l.text("new"))
		if old := stateOf(l.text("old")); old != next && old != unknown && next != unknown {
			d.Turns++
		}
		d.turn(l.time, next)
		d.show(l.text("new"))
	case "device.removed":
		d.turn(l.time, gone)
		d.show([]byte("gone"))
		d.Removed++
		d.removed = true
	case "device.tombstone":
		if d.removed {
			d.RemovedHeld++
			d.removed = false
		}
		d.missed = false
		d.hold(l)
		if d.state == unknown { // it went while nobody watched
			d.turn(l.time, gone)
			d.show([]byte("gone"))
		}
	case "device.released", "device.returned":
		d.Holders = nil
	}
	if d.state == usable { // what another holds is offered to nobody
		d.Holders = nil
	}
}

// maxHolders is how many of them are kept.
const maxHolders = 3

// hold notes who holds the device.
func (d *deviceClock) hold(l *line) {
	d.Holders = nil
	more := 0
	l.each("holders", func(name []byte) {
		if len(d.Holders) == maxHolders || len(name) > maxKey {
			more++
			return
		}
		d.Holders = append(d.Holders, string(name))
	})
	if more > 0 {
		d.Holders = append(d.Holders, fmt.Sprintf("and %d more", more))
	}
	if d.Holders == nil {
		d.Holders = []string{"unknown"}
	}
}
