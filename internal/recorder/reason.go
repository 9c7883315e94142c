package recorder

// Reason is the CamelCase word of an Event that programs select by.
type Reason string

// The reasons. Those that say so are Warnings, and those that say so are on pods
// that hold the device, too.
const (
	DeviceAdded         Reason = "DeviceAdded"
	DeviceUnhealthy     Reason = "DeviceUnhealthy"     // Warning, pods
	DeviceDegraded      Reason = "DeviceDegraded"      // Warning
	DeviceRecovered     Reason = "DeviceRecovered"     // pods, where it was unhealthy
	DeviceExcluded      Reason = "DeviceExcluded"      // taken out by the operator
	DeviceMoving        Reason = "DeviceMoving"        // to be offered as something else
	DeviceRemoved       Reason = "DeviceRemoved"       // Warning, while it is not known who holds it
	DeviceRemovedInUse  Reason = "DeviceRemovedInUse"  // Warning, pods
	DeviceReplacedInUse Reason = "DeviceReplacedInUse" // Warning, pods
	DeviceReturned      Reason = "DeviceReturned"      // pods
	DeviceReleased      Reason = "DeviceReleased"      // removed or replaced, and held no longer
)

// Reasons lists them all.
func Reasons() []Reason {
	return []Reason{
		DeviceAdded, DeviceUnhealthy, DeviceDegraded, DeviceRecovered, DeviceExcluded, DeviceMoving,
		DeviceRemoved, DeviceRemovedInUse, DeviceReplacedInUse, DeviceReturned, DeviceReleased,
	}
}

// first is what to say of a device that is new to us. One that we found at our
// start is only spoken of when it is bad.
func first(is state) []Reason {
	var all []Reason
	if !is.found && is.kind.here() {
		all = append(all, DeviceAdded)
	}
	switch {
	case is.kind == unhealthy:
		return append(all, DeviceUnhealthy)
	case is.kind == degraded:
		return append(all, DeviceDegraded)
	case is.kind == removedInUse:
		return append(all, DeviceRemovedInUse)
	}
	return all
}

// change is what to say of a device that was otherwise before.
func change(was, is state) []Reason {
	fresh := is.kind != was.kind
	switch is.kind {
	case removed, removedInUse, replacedInUse, moving, excluded:
		if !fresh {
			return nil
		}
		return []Reason{map[kind]Reason{
			removed: DeviceRemoved, removedInUse: DeviceRemovedInUse, replacedInUse: DeviceReplacedInUse, moving: DeviceMoving, excluded: DeviceExcluded,
		}[is.kind]}
	case unhealthy:
		return changeForWorse(was, is)
	}
	switch {
	case was.kind == removed, was.kind == removedInUse:
		return []Reason{DeviceReturned}
	case was.kind == replacedInUse:
		return []Reason{DeviceReleased}
	case was.kind == moving:
		return nil // what it is now is what was to come
	case was.kind > is.kind:
		return []Reason{DeviceRecovered}
	case is.kind == degraded && hasTrouble(is.device, reasonsIf(was, degraded)):
		return []Reason{DeviceDegraded}
	}
	return nil
}

// changeForWorse is change where the device is unhealthy now. A reason that is
// over is no news, but for a device that was offered: it has been bad for so short
// a time that we have not seen it.
func changeForWorse(was, is state) []Reason {
	trouble := hasTrouble(is.device, reasonsIf(was, unhealthy))
	switch was.kind {
	case well, degraded:
		return []Reason{DeviceUnhealthy}
	case removed, removedInUse:
		if trouble {
			return []Reason{DeviceReturned, DeviceUnhealthy}
		}
		return []Reason{DeviceReturned}
	case replacedInUse:
		if trouble {
			return []Reason{DeviceReleased, DeviceUnhealthy}
		}
		return []Reason{DeviceReleased}
	}
	if trouble {
		return []Reason{DeviceUnhealthy}
	}
	return nil
}

// reasonsIf are the reasons that a device had, if they made it that kind.
func reasonsIf(was state, k kind) []string {
	if was.kind != k {
		return nil
	}
	return was.device.Reasons
}

// last is what to say of a device that is not listed any more.
func last(was state) []Reason {
	switch was.kind {
	case removedInUse, replacedInUse:
		return []Reason{DeviceReleased}
	case removed:
		return nil // that it left has been said
	}
	return []Reason{DeviceRemoved}
}
