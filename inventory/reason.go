package inventory

import (
	"maps"
	"slices"
	"strings"
)

// Names of the reasons that this package sets or uses. A reason is NAME or NAME=VALUE. The reasons that a family reads
// from its hardware are the rows of its health table.
const (
	ReasonDriverUnbound  = "driver-unbound"   // the port has no driver
	ReasonFMEUnbound     = "fme-unbound"      // the management engine has no driver; a row in health tables
	ReasonLoading        = "loading"          // the part of the card that containers use is missing while an image is loaded
	ReasonNodeMissing    = "node-missing"     // the node isn't in the device root
	ReasonNodeMismatch   = "node-mismatch"    // the file in the device root isn't a device node, or is another device's node
	ReasonNoPort         = "no-port"          // a region without ports: they were all released, or none has been created yet
	ReasonPortMissing    = "port-missing"     // some ports of a new region haven't been created yet
	ReasonPortIDConflict = "port-id-conflict" // another port of the card has the same number
	ReasonUnreadable     = "unreadable"       // =FILE can't be read, or its content isn't valid
	ReasonReadTimeout    = "read-timeout"     // reading the card takes longer than the read timeout
	ReasonScanFailed     = "scan-failed"      // reading the card failed three times in a row, or once if it hasn't been read since it was plugged in
	ReasonUnchecked      = "unchecked"        // the card hasn't been read for too long, because the daemon was out of file descriptors or memory
	ReasonRecoveryFailed = "recovery-failed"  // the kernel gave up recovering the card from a PCI error
	ReasonRecovering     = "recovering"       // =NAME has only recently ended
	ReasonFlapping       = "flapping"         // changed too often; in quarantine until it has been stable for a while
	ReasonExcluded       = "excluded"         // by the administrator's settings
	ReasonCordoned       = "cordoned"         // by the administrator's command
	ReasonMissing        = "missing"          // set by package daemon/ledger; present before the daemon started, but not found since
	ReasonRemoved        = "removed"          // left the node; its holders aren't known yet
	ReasonRemovedInUse   = "removed-in-use"   // left the node while a container was holding it
	ReasonReplacedInUse  = "replaced-in-use"  // a different device has replaced one that a container still holds
	ReasonMoving         = "moving"           // to be offered under another name; its holders aren't known yet
	ReasonFormerMode     = "former-mode"      // a container holds it from an earlier mode; its card is present
	ReasonNodeInUse      = "node-in-use"      // a container that holds another device may still open this device's node
	ReasonNodeChanged    = "node-changed"     // its nodes differ from those its holder was given
	ReasonHeldTwice      = "held-twice"       // several containers hold it at once
	ReasonHeldOtherAPI   = "held-other-api"   // a container holds it through the API that the node used before
	ReasonHoldersUnknown = "holders-unknown"  // only after startup; a container may hold it through the other API
)

// Reason says how a reason is treated.
type Reason struct {
	// Administrative means that the reason doesn't come from the hardware. Getting or losing it doesn't count as a turn
	// ([Config.FlapLimit]).
	Administrative bool
	// Tombstone means that the device is listed because a container holds, or may hold, the previous device with the
	// same id.
	Tombstone bool
	// WithholdsNodes means that a restarted container doesn't get any of the device's nodes (CDI). Otherwise it could
	// end up sharing the device with another container, or with a different device.
	WithholdsNodes bool
	// NoHold means that the reason ends without a recovery hold, because the hardware was fine.
	NoHold bool
}

// reasons contains the properties of all reasons that aren't rows in a family's health table.
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

// Reasons returns the sorted names of the reasons that aren't rows in a family's health table. Administrators can't
// override them.
func Reasons() []string { return slices.Sorted(maps.Keys(reasons)) }

// steps lists the reasons that a device may have for a few milliseconds while its card is being pulled. Before removing
// the PCI function, the kernel unbinds the FME and the ports and removes them along with their files and device nodes.
var steps = []string{ReasonFMEUnbound, ReasonDriverUnbound, ReasonNoPort, ReasonPortMissing, ReasonNodeMissing, ReasonUnreadable}

// IsRemovalStep reports whether even a healthy device may briefly have this reason while its card is being pulled.
func IsRemovalStep(reason string) bool {
	name, _, _ := strings.Cut(reason, "=")
	return slices.Contains(steps, name)
}

// compareSteps sorts removal steps after other reasons.
func compareSteps(a, b string) int {
	switch step := IsRemovalStep(a); {
	case step == IsRemovalStep(b):
		return 0
	case step:
		return 1
	}
	return -1
}

// ReasonOf returns a reason's properties. Reasons from a family's health table have none.
func ReasonOf(reason string) Reason { return reasons[reason] }
