package inventory

import (
	"slices"
	"strings"
	"time"
)

// Snapshot contains the node's devices at one version. It is immutable, and so are its devices.
type Snapshot struct {
	// Version grows by one with each published change. 0 means that no snapshot has been
	// published yet.
	Version uint64
	Devices []*Device // sorted by ID
	// Complete means that each card of the first listing of this generation has been read, or was
	// given up. Until then the devices of slow cards are missing, or are those of the former
	// generation.
	Complete bool
	// Awaiting means that no device is offered yet, because it is not known which are held
	// ([Config.HoldersUnknown]).
	Awaiting bool
	// Generation grows by one with each change of [Policy.Mode]. Differences between two generations do not mean that
	// the hardware has changed.
	Generation uint64
	// Hinted is the time of the earliest hint that caused a change in this version, to measure the latency. It is zero
	// if a tick or a timer caused all of them.
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

// Hint names a card or a node that may have changed. The zero Hint means that everything may have
// changed.
type Hint struct {
	Card string // PCI address DDDD:BB:DD.F, or "" for everything
	// Node is the name of a device node that was added or removed, if the source has no
	// address; "" otherwise. It is ignored if Card is set.
	Node   string
	Source string    // uevent, inotify, resync, …
	At     time.Time // when the event was received
	// RecoveryFailed means that the kernel gave up recovering Card from a PCI error. The card is
	// unhealthy until it has answered for the recovery hold.
	RecoveryFailed bool
}
