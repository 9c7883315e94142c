package kubeevents

import (
	"slices"
	"strings"
	"time"

	"b-com.com/accelerator-device-plugin/inventory"
)

// kind is the kind of state that a device is in. Only changes in the kind or in the reasons cause Events.
type kind uint8

const (
	absent kind = iota // not listed
	well               // healthy; well, degraded and unhealthy are in the same order as in [inventory.Health]
	degraded
	unhealthy
	excluded // by the administrator's settings
	cordoned // by the administrator's command
	moving   // waiting to become free so that it can be advertised as another resource
	removed  // gone, but still listed because its holder isn't known
	removedInUse
	replacedInUse
)

// inSlot reports whether the device itself is present, that is, neither gone nor replaced by another device.
func (k kind) inSlot() bool { return absent < k && k < removed }

// state is what was last reported about a device in Events.
type state struct {
	kind   kind
	device *inventory.Device // as last listed
	since  time.Time         // when the device changed to this kind
	found  bool              // the device was already of this kind when it was first seen
	health kind              // the degree of health last reported in Events; may be absent
}

func (s state) heldTwice() bool {
	return s.device != nil && slices.Contains(s.device.Reasons, inventory.ReasonHeldTwice)
}

// recovering is the prefix of a reason that no longer applies, but ended less than the recovery hold ago.
const recovering = inventory.ReasonRecovering + "="

// kindOf returns a device's kind. was is its previous kind, which distinguishes the two meanings of replaced-in-use:
// either a different device has taken the place of one that left, or the device itself is to be advertised as another
// resource.
func kindOf(d *inventory.Device, was kind) kind {
	if d == nil {
		return absent
	}
	// only reports whether all of the device's reasons, including recovering ones, are among names.
	only := func(names ...string) bool {
		return len(d.Reasons) > 0 && !slices.ContainsFunc(d.Reasons, func(reason string) bool {
			return !slices.Contains(names, strings.TrimPrefix(reason, recovering))
		})
	}
	has := func(reason string) bool { return slices.Contains(d.Reasons, reason) }
	switch {
	case has(inventory.ReasonRemovedInUse):
		return removedInUse
	case has(inventory.ReasonRemoved):
		return removed
	case has(inventory.ReasonReplacedInUse) && was >= removed:
		return replacedInUse
	case has(inventory.ReasonReplacedInUse), has(inventory.ReasonMoving):
		return moving
	case has(inventory.ReasonCordoned) && only(inventory.ReasonCordoned, inventory.ReasonExcluded):
		return cordoned
	case only(inventory.ReasonExcluded):
		return excluded
	}
	return well + kind(d.Health)
}

// Reason is an Event's reason, in CamelCase. Programs use it to select Events.
type Reason string

// Reasons of Events. "Warning" means that the Event is a Warning, and "pods" that there is also an Event on each pod
// that holds the device.
const (
	DeviceAdded         Reason = "DeviceAdded"
	DeviceUnhealthy     Reason = "DeviceUnhealthy"     // Warning, pods
	DeviceDegraded      Reason = "DeviceDegraded"      // Warning
	DeviceRecovered     Reason = "DeviceRecovered"     // pods, if it was unhealthy
	DeviceExcluded      Reason = "DeviceExcluded"      // by the administrator's settings
	DeviceCordoned      Reason = "DeviceCordoned"      // by the administrator's command
	DeviceMoving        Reason = "DeviceMoving"        // waiting to be advertised as another resource
	DeviceRemoved       Reason = "DeviceRemoved"       // Warning; its holder isn't known yet
	DeviceRemovedInUse  Reason = "DeviceRemovedInUse"  // Warning, pods
	DeviceReplacedInUse Reason = "DeviceReplacedInUse" // Warning, pods
	DeviceReturned      Reason = "DeviceReturned"      // pods
	DeviceReleased      Reason = "DeviceReleased"      // removed or replaced, and no longer held
	DeviceHeldTwice     Reason = "DeviceHeldTwice"     // Warning, pods
	DeviceMissing       Reason = "DeviceMissing"       // Warning; a card hasn't been found since startup
)

// reasons returns a reason for each Event that must be written because a device's state has changed.
func reasons(was, is state) []Reason {
	all := []Reason{reasonOfPresence(was, is), reasonOfHealth(was, is)}
	if is.heldTwice() && !was.heldTwice() {
		all = append(all, DeviceHeldTwice)
	}
	return slices.DeleteFunc(all, func(r Reason) bool { return r == "" })
}

// judged reports whether the kind is simply a degree of health.
func (k kind) judged() bool { return well <= k && k <= unhealthy }

// reasonOfPresence returns the reason of the Event to write if a device has appeared or left, or "" if no Event is
// needed.
func reasonOfPresence(was, is state) Reason {
	switch {
	case is.kind == absent && was.kind.inSlot():
		return DeviceRemoved
	case is.kind == absent && was.kind > removed, is.kind.judged() && was.kind == replacedInUse:
		return DeviceReleased
	case is.kind.judged() && was.kind >= removed:
		return DeviceReturned
	case was.kind == absent && is.kind.inSlot() && !is.found:
		return DeviceAdded
	}
	return ""
}

// reasonOfHealth returns the reason of the Event to write if a device's health has changed, or if something now keeps
// pods from using the device. It returns "" if no Event is needed.
func reasonOfHealth(was, is state) Reason {
	switch {
	case is.kind == absent:
	case is.kind.judged() && is.kind < was.kind && was.kind <= cordoned && is.kind != unhealthy,
		is.kind.judged() && was.kind == moving && is.kind < was.health: // it recovered while it was moving
		return DeviceRecovered
	case is.kind == degraded && (was.kind < is.kind || worse(was, is)):
		return DeviceDegraded
	case is.kind == unhealthy && (was.kind < is.kind || worse(was, is)):
		return DeviceUnhealthy
	case !is.kind.judged() && is.kind != was.kind && (was.kind != absent || is.kind == removedInUse):
		return map[kind]Reason{
			excluded: DeviceExcluded, cordoned: DeviceCordoned, moving: DeviceMoving, removed: DeviceRemoved,
			removedInUse: DeviceRemovedInUse, replacedInUse: DeviceReplacedInUse,
		}[is.kind]
	}
	return ""
}

// worse reports whether a device has a new reason that still applies. If the device was of a different kind before, all
// of its reasons count as new.
func worse(was, is state) bool {
	return slices.ContainsFunc(is.device.Reasons, func(r string) bool {
		return !strings.HasPrefix(r, recovering) && (was.kind != is.kind || !slices.Contains(was.device.Reasons, r))
	})
}
