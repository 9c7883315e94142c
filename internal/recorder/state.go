package recorder

import (
	"slices"
	"strings"
	"time"

	"b-com.com/accelerator-device-plugin/inventory"
)

// kind is how it stands with a device, as far as Events tell it apart.
type kind uint8

const (
	well kind = iota
	degraded
	unhealthy
	excluded // by the operator
	moving   // to be offered as something else, when nobody holds it
	removed  // who holds it is not known
	removedInUse
	replacedInUse
)

// here says whether the device is in its slot.
func (k kind) here() bool { return k < removed }

// state is a device, and since when it stands so with it.
type state struct {
	kind   kind
	device *inventory.Device
	came   time.Time // it was listed
	since  time.Time
	found  bool     // it was so when we came; since is when that was
	mild   []string // the reasons with which it was last only degraded
}

// kindOf judges a device by its reasons. Something else in the place of a device
// that is held may be another one, or itself under another name: it has left
// before, or it has not.
func kindOf(d *inventory.Device, was kind) kind {
	has := func(reason string) bool { return slices.Contains(d.Reasons, reason) }
	switch {
	case has(inventory.ReasonRemovedInUse):
		return removedInUse
	case has(inventory.ReasonRemoved):
		return removed
	case has(inventory.ReasonReplacedInUse) && !was.here():
		return replacedInUse
	case has(inventory.ReasonReplacedInUse), has(inventory.ReasonMoving):
		return moving
	case len(d.Reasons) > 0 && !slices.ContainsFunc(d.Reasons, notExcluded):
		return excluded
	}
	switch d.Health {
	case inventory.Healthy:
		return well
	case inventory.Degraded:
		return degraded
	}
	return unhealthy
}

// notExcluded says that a reason is another one than the operator's word.
func notExcluded(reason string) bool {
	return strings.TrimPrefix(reason, recovering) != inventory.ReasonExcluded
}

// recovering is what a reason begins with that is over, but not for long enough.
const recovering = inventory.ReasonRecovering + "="

// over says that a reason does not hold any more, but for the time that good news
// has to wait.
func over(reason string) bool {
	return strings.HasPrefix(reason, recovering)
}

// hasTrouble says whether d has a reason that is not over and not among the others.
func hasTrouble(d *inventory.Device, others []string) bool {
	return slices.ContainsFunc(d.Reasons, func(r string) bool { return !over(r) && !slices.Contains(others, r) })
}

// present are the reasons of d that are not over.
func present(d *inventory.Device) []string {
	return slices.DeleteFunc(slices.Clone(d.Reasons), over)
}

// causes are the reasons as people are told them: what is wrong now. What is over is
// left out then, for whoever reads it would mend it; it is named where nothing else
// says why the device is as bad as it is. That it flaps does not, nor does what did
// not make it unhealthy before.
func (s state) causes() []string {
	all := present(s.device)
	if slices.ContainsFunc(all, func(r string) bool {
		return r != inventory.ReasonFlapping && (s.kind != unhealthy || !slices.Contains(s.mild, r))
	}) {
		return all
	}
	var past []string
	for _, r := range s.device.Reasons {
		if name, ok := strings.CutPrefix(r, recovering); ok {
			past = append(past, name)
		}
	}
	if len(past) > 0 {
		all = append(all, inventory.ReasonRecovering+" from "+strings.Join(past, ", "))
	}
	return all
}
