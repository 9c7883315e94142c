package inventory

import (
	"slices"
	"strings"
	"time"
)

// Snapshot is the node's devices at one version. It is immutable: do not change
// what it points to.
type Snapshot struct {
	// Version grows by one with each published change. 0: the first scan has not
	// ended yet and nothing is known.
	Version uint64
	Devices []*Device // sorted by ID
	// Complete: each card of the first scan of this generation has answered, or was given
	// up. Until then cards that are slow to answer are not listed yet, or are listed as in
	// the generation before.
	Complete bool
	// Generation grows by one with each change of [Policy.Mode]. Which devices there are in the
	// first snapshots of a generation says nothing about the hardware.
	Generation uint64
	// Hinted is when the earliest hint behind this version arrived, for latency;
	// zero where it was none (a tick, a timer).
	Hinted time.Time
}

// Device returns the device with this id, or nil.
func (s Snapshot) Device(id string) *Device {
	i, ok := slices.BinarySearchFunc(s.Devices, id, compareID)
	if !ok {
		return nil
	}
	return s.Devices[i]
}

func compareID(d *Device, id string) int { return strings.Compare(d.ID, id) }

// Hint says where something may have changed. The zero Hint means everywhere.
type Hint struct {
	Card string // PCI address DDDD:BB:DD.F, or "" for everything
	// Node is the name of a device node that came or went, for news that knows
	// no address; "" otherwise. Ignored where Card is set.
	Node   string
	Source string    // who says so: uevent, inotify, resync, …
	At     time.Time // when it was received
	// RecoveryFailed: the kernel gave up recovering Card from a PCI error. This is
	// believed: the card is unhealthy until it has answered for the hold time.
	RecoveryFailed bool
}
