package kubeevents

import (
	"slices"
	"strings"
	"time"

	"b-com.com/accelerator-device-plugin/inventory"
)

// kind is the kind of a device's state. Only a change of the kind or of the reasons causes an Event.
type kind uint8

const (
	absent kind = iota // not listed
	well               // healthy; well, degraded and unhealthy are in the order of [inventory.Health]
	degraded
	unhealthy
	excluded // by the administrator's settings
	cordoned // by the administrator's command
	moving   // waits until it is free and can be advertised as another resource
	removed  // gone, but listed because its holder is not known
	removedInUse
	replacedInUse
)

// inSlot reports whether the device is present: not gone, and not replaced by another one.
func (k kind) inSlot() bool { return absent < k && k < removed }

// state is what the Events have last reported about a device.
type state struct {
	kind   kind
	device *inventory.Device // as it was last listed
	since  time.Time         // when the device changed to this kind
	found  bool              // the device was already of this kind when it was first seen, at since
}

func (s state) heldTwice() bool {
	return s.device != nil && slices.Contains(s.device.Reasons, inventory.ReasonHeldTwice)
}

// recovering is the prefix of a reason that has ended less than the recovery hold ago.
const recovering = inventory.ReasonRecovering + "="

// kindOf returns the kind of a device; was is its kind before. The reason replaced-in-use has two meanings: another
// device has taken the place of one that left, or the device itself is to be advertised as another resource. Which
// meaning applies depends on was.
func kindOf(d *inventory.Device, was kind) kind {
	if d == nil {
		return absent
	}
	// only reports whether all reasons, including those that recover, are among these.
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

// Reason is the reason of an Event, in CamelCase. Programs select Events by it.
type Reason string

// The reasons. The comments mean: Warning: the Event is a Warning. pods: each pod that holds the device also gets an
// Event.
const (
	DeviceAdded         Reason = "DeviceAdded"
	DeviceUnhealthy     Reason = "DeviceUnhealthy"     // Warning, pods
	DeviceDegraded      Reason = "DeviceDegraded"      // Warning
	DeviceRecovered     Reason = "DeviceRecovered"     // pods, if it was unhealthy
	DeviceExcluded      Reason = "DeviceExcluded"      // by the administrator's settings
	DeviceCordoned      Reason = "DeviceCordoned"      // by the administrator's command
	DeviceMoving        Reason = "DeviceMoving"        // waits to be advertised as another resource
	DeviceRemoved       Reason = "DeviceRemoved"       // Warning, while its holder is not known
	DeviceRemovedInUse  Reason = "DeviceRemovedInUse"  // Warning, pods
	DeviceReplacedInUse Reason = "DeviceReplacedInUse" // Warning, pods
	DeviceReturned      Reason = "DeviceReturned"      // pods
	DeviceReleased      Reason = "DeviceReleased"      // removed or replaced, and no longer held
	DeviceHeldTwice     Reason = "DeviceHeldTwice"     // Warning, pods
	DeviceMissing       Reason = "DeviceMissing"       // Warning; a card that was not found after the start
)

// reasons returns the reasons of the Events about a device between two states.
func reasons(was, is state) []Reason {
	all := []Reason{reasonOfPresence(was, is), reasonOfHealth(was, is)}
	if is.heldTwice() && !was.heldTwice() {
		all = append(all, DeviceHeldTwice)
	}
	return slices.DeleteFunc(all, func(r Reason) bool { return r == "" })
}

// judged reports whether the kind says only how healthy the device is.
func (k kind) judged() bool { return well <= k && k <= unhealthy }

// reasonOfPresence returns the reason of the Event about a device that has come or left; "": there is none.
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

// reasonOfHealth returns the reason of the Event about the health of a device, or about what keeps pods from using it;
// "": there is none.
func reasonOfHealth(was, is state) Reason {
	switch {
	case is.kind == absent:
	case is.kind.judged() && is.kind < was.kind && was.kind <= cordoned && is.kind != unhealthy:
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

// worse reports whether a device has a reason that has not ended and that is new. A reason that was present only while
// the device was of another kind also counts as new.
func worse(was, is state) bool {
	return slices.ContainsFunc(is.device.Reasons, func(r string) bool {
		return !strings.HasPrefix(r, recovering) && (was.kind != is.kind || !slices.Contains(was.device.Reasons, r))
	})
}
