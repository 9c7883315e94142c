package inventory

import (
	"maps"
	"slices"
)

// The names of the reasons that this package gives or must know. A reason is NAME or
// NAME=VALUE. Those that a family reads from its hardware are rows of its health table.
const (
	ReasonDriverUnbound  = "driver-unbound"   // the port has no driver
	ReasonFMEUnbound     = "fme-unbound"      // the management engine has none; a row of families
	ReasonNodeMissing    = "node-missing"     // no node in the device root
	ReasonNodeMismatch   = "node-mismatch"    // a node, but of another device or no node at all
	ReasonNoPort         = "no-port"          // a region whose ports have all been released, or are yet to come
	ReasonPortMissing    = "port-missing"     // a region that has just come, and some of its ports have not
	ReasonPortIDConflict = "port-id-conflict" // another port of the card says that it has this number
	ReasonUnreadable     = "unreadable"       // =FILE cannot be read, or holds what it may not hold
	ReasonReadTimeout    = "read-timeout"     // reading the card does not come back
	ReasonScanFailed     = "scan-failed"      // the card could not be read three times in a row
	ReasonUnchecked      = "unchecked"        // the daemon has had no descriptor or memory to read the card for too long
	ReasonRecoveryFailed = "recovery-failed"  // the kernel gave up recovering the card from a PCI error
	ReasonRecovering     = "recovering"       // =NAME is over, but not for long enough yet
	ReasonFlapping       = "flapping"         // turned too often; not believed until it has been steady
	ReasonExcluded       = "excluded"         // taken out by the operator
	ReasonRemoved        = "removed"          // left the node; whether somebody holds it is not known yet
	ReasonRemovedInUse   = "removed-in-use"   // left the node while a container holds it
	ReasonReplacedInUse  = "replaced-in-use"  // another one in the place of one that a container still holds
	ReasonMoving         = "moving"           // to be offered as something else; whether somebody holds it is not known yet
	ReasonNodeInUse      = "node-in-use"      // a container that holds another device may still open its node
	ReasonNodeChanged    = "node-changed"     // has another node than its holder was given
)

// Reason has the properties of a reason.
type Reason struct {
	// Administrative means that the reason is no judgement on the hardware: a device that
	// gets it or loses it makes no turn ([Config.FlapLimit]).
	Administrative bool
	// Tombstone means that the device is listed for the sake of a container that holds, or
	// may hold, what it was.
	Tombstone bool
	// WithholdsNodes means that a container that is started again gets no node of the device
	// (CDI): it would share the device with another container, or get another device.
	WithholdsNodes bool
}

// reasons are those that are no row of a family.
var reasons = map[string]Reason{
	ReasonDriverUnbound:  {},
	ReasonNodeMissing:    {},
	ReasonNodeMismatch:   {},
	ReasonNoPort:         {},
	ReasonPortMissing:    {},
	ReasonPortIDConflict: {},
	ReasonUnreadable:     {},
	ReasonReadTimeout:    {},
	ReasonScanFailed:     {},
	ReasonUnchecked:      {Administrative: true},
	ReasonRecoveryFailed: {},
	ReasonRecovering:     {},
	ReasonFlapping:       {},
	ReasonExcluded:       {Administrative: true},
	ReasonRemoved:        {Tombstone: true},
	ReasonRemovedInUse:   {Tombstone: true},
	ReasonReplacedInUse:  {Administrative: true, Tombstone: true, WithholdsNodes: true},
	ReasonMoving:         {Administrative: true, Tombstone: true},
	ReasonNodeInUse:      {Administrative: true, WithholdsNodes: true},
	ReasonNodeChanged:    {Administrative: true, Tombstone: true},
}

// Reasons returns the names of the reasons that are no row of a family, sorted. An operator
// cannot overrule them.
func Reasons() []string { return slices.Sorted(maps.Keys(reasons)) }

// ReasonOf returns the properties of a reason. A family's reason has none.
func ReasonOf(reason string) Reason { return reasons[reason] }
