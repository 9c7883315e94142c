package inventory

import (
	"slices"
	"strings"
	"time"
)

// Snapshot contains the node's devices at one version. It and its devices are immutable.
type Snapshot struct {
	// Version increases by one with each published change. It is 0 if no snapshot has been published yet.
	Version uint64
	Devices []*Device // sorted by ID
	// Complete means that each card in this generation's first listing has been read or given up on. Until then, the
	// devices of slow cards may be missing or come from the previous generation.
	Complete bool
	// Awaiting means that no devices are offered yet, because it isn't known which ones are held
	// ([Config.HoldersUnknown]).
	Awaiting bool
	// Generation increases by one each time [Policy.Mode] changes. Differences between generations don't mean that the
	// hardware has changed.
	Generation uint64
	// Hinted is the arrival time of the earliest hint that caused a change in this version, for measuring latency. It
	// is zero if all changes were caused by ticks or timers.
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

// Hint identifies a card or a node that may have changed. The zero Hint means that anything may have changed.
type Hint struct {
	Card string // PCI address DDDD:BB:DD.F, or "" for everything
	// Node is the name of a device node that was added or removed, for sources that don't know the card's address. It
	// is ignored if Card is set.
	Node   string
	Source string    // uevent, inotify, resync, …
	At     time.Time // when the event was received
	// RecoveryFailed means that the kernel gave up recovering Card from a PCI error. The card stays unhealthy until it
	// has responded throughout the recovery hold.
	RecoveryFailed bool
}
