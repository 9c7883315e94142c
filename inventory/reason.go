package inventory

import (
	"maps"
	"slices"
	"strings"
)

// The names of the reasons that this package gives or uses. A reason is NAME or NAME=VALUE.
// The reasons that a family reads from its hardware are rows of its health table.
const (
	ReasonDriverUnbound  = "driver-unbound"   // the port has no driver
	ReasonFMEUnbound     = "fme-unbound"      // the management engine has no driver; a row of families
	ReasonLoading        = "loading"          // the part of the card that containers use is missing while an image is loaded
	ReasonNodeMissing    = "node-missing"     // no node in the device root
	ReasonNodeMismatch   = "node-mismatch"    // the file in the device root is not a node, or is another device's node
	ReasonNoPort         = "no-port"          // a region without ports: all were released, or none has been created yet
	ReasonPortMissing    = "port-missing"     // a new region, of which some ports have not been created yet
	ReasonPortIDConflict = "port-id-conflict" // another port of the card has the same number
	ReasonUnreadable     = "unreadable"       // =FILE cannot be read, or its content is not valid
	ReasonReadTimeout    = "read-timeout"     // reading the card takes longer than the read timeout
	ReasonScanFailed     = "scan-failed"      // the card could not be read three times in a row, or not once since it was plugged in
	ReasonUnchecked      = "unchecked"        // for too long, the daemon has lacked the descriptors or memory to read the card
	ReasonRecoveryFailed = "recovery-failed"  // the kernel gave up recovering the card from a PCI error
	ReasonRecovering     = "recovering"       // =NAME is over, but not for long enough yet
	ReasonFlapping       = "flapping"         // changed too often; in quarantine until it has not changed for a while
	ReasonExcluded       = "excluded"         // by the administrator's settings
	ReasonCordoned       = "cordoned"         // by the administrator's command
	ReasonMissing        = "missing"          // given by package daemon/ledger: present before the start, and not found since
	ReasonRemoved        = "removed"          // left the node; its holders are not known yet
	ReasonRemovedInUse   = "removed-in-use"   // left the node while a container holds it
	ReasonReplacedInUse  = "replaced-in-use"  // another device in the place of one that a container still holds
	ReasonMoving         = "moving"           // to be offered under another name; its holders are not known yet
	ReasonFormerMode     = "former-mode"      // a container holds it in the form of a former mode; its card is present
	ReasonNodeInUse      = "node-in-use"      // a container that holds another device may still open its node
	ReasonNodeChanged    = "node-changed"     // has other nodes than its holder was given
	ReasonHeldTwice      = "held-twice"       // several containers hold it at once
	ReasonHeldOtherAPI   = "held-other-api"   // a container holds it through the API that the node used before
	ReasonHoldersUnknown = "holders-unknown"  // after the start: a container may hold it through the other API
)

// Reason describes a reason.
type Reason struct {
	// Administrative means that the reason does not come from the hardware. Getting or losing it does not count as a
	// turn ([Config.FlapLimit]).
	Administrative bool
	// Tombstone means that the device is listed because a container holds, or may hold, the
	// former device with this id.
	Tombstone bool
	// WithholdsNodes means that a container that is started again gets no node of the device
	// (CDI): otherwise it could share the device with another container, or get another device.
	WithholdsNodes bool
	// NoHold means that the reason ends without a recovery hold, because the hardware was well.
	NoHold bool
}

// reasons describes the reasons that are not rows of a family.
var reasons = map[string]Reason{
	ReasonDriverUnbound:  {},
	ReasonLoading:        {Administrative: true},
	ReasonNodeMissing:    {},
	ReasonNodeMismatch:   {WithholdsNodes: true},
	ReasonNoPort:         {},
	ReasonPortMissing:    {NoHold: true},
	ReasonPortIDConflict: {WithholdsNodes: true},
	ReasonUnreadable:     {},
	ReasonReadTimeout:    {},
	ReasonScanFailed:     {},
	ReasonUnchecked:      {Administrative: true},
	ReasonRecoveryFailed: {},
	ReasonRecovering:     {},
	ReasonFlapping:       {},
	ReasonExcluded:       {Administrative: true},
	ReasonCordoned:       {Administrative: true, NoHold: true},
	ReasonMissing:        {},
	ReasonRemoved:        {Tombstone: true, WithholdsNodes: true},
	ReasonRemovedInUse:   {Tombstone: true, WithholdsNodes: true},
	ReasonReplacedInUse:  {Administrative: true, Tombstone: true, WithholdsNodes: true},
	ReasonMoving:         {Administrative: true, Tombstone: true, NoHold: true},
	ReasonFormerMode:     {Administrative: true, Tombstone: true},
	ReasonNodeInUse:      {Administrative: true, WithholdsNodes: true, NoHold: true},
	ReasonNodeChanged:    {Administrative: true, Tombstone: true, NoHold: true},
	ReasonHeldTwice:      {Administrative: true, NoHold: true},
	ReasonHeldOtherAPI:   {Administrative: true, Tombstone: true, NoHold: true},
	ReasonHoldersUnknown: {Administrative: true, Tombstone: true, NoHold: true},
}

// Reasons returns the names of the reasons that are not rows of a family, sorted. An administrator cannot overrule
// them.
func Reasons() []string { return slices.Sorted(maps.Keys(reasons)) }

// steps lists the reasons that a device has for some milliseconds while its card is pulled. The kernel unbinds the FME
// and the ports, and removes them with their files and device nodes, before it removes the PCI function.
var steps = []string{ReasonFMEUnbound, ReasonDriverUnbound, ReasonNoPort, ReasonPortMissing, ReasonNodeMissing, ReasonUnreadable}

// IsRemovalStep reports whether even a healthy device has this reason for a moment while its card is pulled.
func IsRemovalStep(reason string) bool {
	name, _, _ := strings.Cut(reason, "=")
	return slices.Contains(steps, name)
}

// compareSteps sorts the reasons that are steps of a removal last.
func compareSteps(a, b string) int {
	switch step := IsRemovalStep(a); {
	case step == IsRemovalStep(b):
		return 0
	case step:
		return 1
	}
	return -1
}

// ReasonOf returns the properties of a reason. A family's reason has none.
func ReasonOf(reason string) Reason { return reasons[reason] }
