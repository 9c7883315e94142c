package recorder

import (
	"slices"
	"strings"
	"time"

	"b-com.com/accelerator-device-plugin/inventory"
)

// kind is the state of a device as far as Events distinguish it.
type kind uint8

const (
	absent kind = iota // not listed
	well
	degraded
	unhealthy
	excluded // by the administrator
	moving   // to be offered as another resource, when it is free
	removed  // listed, because its holder is not known
	removedInUse
	replacedInUse
)

// inSlot reports whether the device itself is in its slot.
func (k kind) inSlot() bool { return absent < k && k < removed }

// state is the state of a device at one time.
type state struct {
	kind   kind
	device *inventory.Device // as it was listed last
	added  time.Time         // when it was listed
	since  time.Time         // when it became of this kind
	found  bool              // it was of this kind already when it was first seen, at since
	mild   []string          // its reasons when it was last degraded
}

// after returns the state after a change that was observed at the given time.
func (s state) after(c inventory.Change, at time.Time) state {
	is := s
	is.kind = kindOf(c.New, s.kind)
	if c.New != nil {
		is.device = c.New
	}
	if s.kind == absent {
		is.added = at
	}
	if is.kind == degraded {
		is.mild = present(is.device)
	}
	// A removed device is gone since its removal, even if its holder was found later.
	if is.kind != s.kind && (s.kind != removed || is.kind != absent) {
		is.since, is.found = at, false
	}
	return is
}

// kindOf returns the kind of a device that was of another kind before. A device that
// is "replaced in use" may be another one in the place of one that left, or the same one
// under another name.
func kindOf(d *inventory.Device, was kind) kind {
	if d == nil {
		return absent
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

// notExcluded reports whether a reason is not the administrator's exclusion.
func notExcluded(reason string) bool {
	return strings.TrimPrefix(reason, recovering) != inventory.ReasonExcluded
}

// recovering is the prefix of a reason that is over, but not for long enough.
const recovering = inventory.ReasonRecovering + "="

// over reports whether a reason is over, and only delays the recovery.
func over(reason string) bool { return strings.HasPrefix(reason, recovering) }

// present returns the reasons of d that are not over.
func present(d *inventory.Device) []string {
	return slices.DeleteFunc(slices.Clone(d.Reasons), over)
}

// causes returns the reasons for a message: those that are present. Reasons that are over are
// added only if none of the present ones explains the health. Flapping explains none, and
// neither does a reason that the device had while it was only degraded.
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
