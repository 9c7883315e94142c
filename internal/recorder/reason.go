package recorder

import "slices"

// Reason is the reason of an Event: a CamelCase word that programs select by.
type Reason string

// The reasons. Warning: the Event is a Warning. pods: there is also an Event on each pod that
// holds the device.
const (
	DeviceAdded         Reason = "DeviceAdded"
	DeviceUnhealthy     Reason = "DeviceUnhealthy"     // Warning, pods
	DeviceDegraded      Reason = "DeviceDegraded"      // Warning
	DeviceRecovered     Reason = "DeviceRecovered"     // pods, where it was unhealthy
	DeviceExcluded      Reason = "DeviceExcluded"      // by the administrator
	DeviceMoving        Reason = "DeviceMoving"        // to be offered as another resource
	DeviceRemoved       Reason = "DeviceRemoved"       // Warning, while its holder is not known
	DeviceRemovedInUse  Reason = "DeviceRemovedInUse"  // Warning, pods
	DeviceReplacedInUse Reason = "DeviceReplacedInUse" // Warning, pods
	DeviceReturned      Reason = "DeviceReturned"      // pods
	DeviceReleased      Reason = "DeviceReleased"      // removed or replaced, and held no longer
)

// Reasons returns all reasons.
func Reasons() []Reason {
	return []Reason{
		DeviceAdded, DeviceUnhealthy, DeviceDegraded, DeviceRecovered, DeviceExcluded, DeviceMoving,
		DeviceRemoved, DeviceRemovedInUse, DeviceReplacedInUse, DeviceReturned, DeviceReleased,
	}
}

// reasons returns the reasons of the Events about a device between two states.
func reasons(was, is state) []Reason {
	var all []Reason
	if is.kind == well || is.kind == degraded || is.kind == unhealthy {
		switch was.kind {
		case removed, removedInUse:
			all = []Reason{DeviceReturned}
		case replacedInUse:
			all = []Reason{DeviceReleased}
		}
	}
	if was.kind == absent && is.kind.inSlot() && !is.found {
		all = []Reason{DeviceAdded}
	}
	offered := was.kind == well || was.kind == degraded
	switch is.kind {
	case absent:
		switch was.kind {
		case removedInUse, replacedInUse:
			return []Reason{DeviceReleased}
		case absent, removed: // its removal has been reported
			return nil
		}
		return []Reason{DeviceRemoved}
	case well, degraded:
		switch {
		case is.kind < was.kind && was.kind <= excluded:
			return []Reason{DeviceRecovered}
		case is.kind == degraded && (was.kind == absent || offered && worse(was, is)):
			return append(all, DeviceDegraded)
		}
	case unhealthy:
		// A device that was offered has been unhealthy even if all its reasons are over.
		if was.kind == absent || offered || worse(was, is) {
			return append(all, DeviceUnhealthy)
		}
	case excluded, moving, removed, replacedInUse, removedInUse:
		if is.kind != was.kind && (was.kind != absent || is.kind == removedInUse) {
			return []Reason{map[kind]Reason{
				excluded: DeviceExcluded, moving: DeviceMoving, removed: DeviceRemoved, replacedInUse: DeviceReplacedInUse,
				removedInUse: DeviceRemovedInUse,
			}[is.kind]}
		}
	}
	return all
}

// worse reports whether a device has a reason that is not over and that it did not have
// when it was of the same kind.
func worse(was, is state) bool {
	return slices.ContainsFunc(present(is.device), func(r string) bool {
		return was.kind != is.kind || !slices.Contains(was.device.Reasons, r)
	})
}
