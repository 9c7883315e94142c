package timeline

import (
	"slices"
	"time"

	"b-com.com/accelerator-device-plugin/internal/logevent"
)

// Device is a short history of a device. Programs rely on its JSON keys.
type Device struct {
	Origin      string    `json:"origin,omitempty"` // pod or host
	ID          string    `json:"id"`
	Last        string    `json:"last"`                 // healthy, degraded, unhealthy or gone; "" if not known
	Since       time.Time `json:"since,omitzero"`       // when the device entered this state
	Holders     []string  `json:"holders,omitempty"`    // containers that hold it
	HeldBefore  []string  `json:"heldBefore,omitempty"` // the most recent containers that held it but no longer do
	Events      int       `json:"events"`               // number of lines about it
	Turns       int       `json:"turns"`                // changes from healthy or degraded to unhealthy, and back
	Removed     int       `json:"removed"`              // how often it was removed
	RemovedHeld int       `json:"removedHeld"`          // how often it was removed while a container was holding it

	unseen  bool // the newest daemon hasn't logged a line about its state
	removed bool // it has been removed, and a device.tombstone line may follow
}

// follow updates the devices' histories based on a line.
func (r *Reader) follow(l *line) {
	if l.event == logevent.DaemonStarted.String { // the new daemon logs all devices and all holders
		for _, d := range r.devices {
			if d.Origin == l.origin {
				d.unseen = true
				d.hold(nil)
			}
		}
	}
	id := l.text("device")
	switch {
	case id == "", l.event == logevent.DeviceUnoffered.String, l.event == logevent.LogSuppressed.String: // not about the device's state
		return
	}
	key := [2]string{l.origin, id}
	if r.devices[key] == nil {
		r.devices[key] = &Device{Origin: l.origin, ID: id}
	}
	r.devices[key].follow(l)
}

// gone is the state of a device that has been removed. The other states are healthy, degraded and unhealthy.
const gone = "gone"

// follow updates the device's history based on a line about it.
func (d *Device) follow(l *line) {
	d.Events++
	state := d.next(l)
	d.followHolders(l.event, l.texts("holders"))
	if state == "" {
		return
	}
	if d.unseen = false; state != d.Last {
		d.Last, d.Since = state, l.time
	}
}

// next returns the device's state according to a line, or "" if the line doesn't say. It also updates the device's
// counts.
func (d *Device) next(l *line) string {
	switch l.event {
	case logevent.DeviceAdded.String:
		d.removed = false
		return l.text("health")
	case logevent.DeviceHealth.String:
		old, health := l.text("old"), l.text("new")
		if old != health && (old == "unhealthy" || health == "unhealthy") {
			d.Turns++
		}
		return health
	case logevent.DeviceRemoved.String:
		d.Removed++
		d.removed = true
		return gone
	case logevent.DeviceTombstone.String:
		if d.removed {
			d.RemovedHeld++
		}
		d.removed = false // the line may be repeated for new holders, even after the device has returned
		if d.unseen {
			return gone // removed while no daemon was running
		}
	}
	return ""
}

// followHolders updates the device's holders based on the event and the holders field of a line.
func (d *Device) followHolders(event string, holders []string) {
	others := without(d.Holders, func(name string) bool { return slices.Contains(holders, name) || isMore(name) })
	switch event {
	case logevent.DeviceTombstone.String, logevent.DeviceReturned.String, logevent.DeviceReleased.String: // the line lists all holders
		d.hold(holders)
	case logevent.DeviceHeld.String: // the line only lists new holders
		d.hold(append(others, holders...))
	case logevent.DeviceFreed.String: // the line lists former holders; there may still be others
		d.Holders, d.HeldBefore = others, holders
	}
}

// hold sets the containers that hold the device.
func (d *Device) hold(names []string) {
	holds := func(name string) bool { return slices.Contains(names, name) }
	if ended := without(d.Holders, holds); len(ended) > 0 {
		d.HeldBefore = ended
	}
	d.Holders, d.HeldBefore = names, without(d.HeldBefore, holds)
}

func without(names []string, leave func(string) bool) []string {
	return slices.DeleteFunc(slices.Clone(names), leave)
}
