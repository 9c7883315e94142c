// Package inventory knows which FPGA devices this node has, and how they are.
//
// It is fed with hints ("something may have changed on this card") and
// answers with snapshots. A hint is never believed: the card it names is read
// again through its [Family] and compared with what was known.
//
// # Who owns what
//
// [Inventory.Run] is the only writer. Its goroutine owns every card, device,
// hold and timer of this package; nothing else touches them, so there are no
// locks around them. Three things cross its border:
//
//   - [Inventory.Hint], called by anyone: merges the hint into the set of
//     pending ones and pokes the loop. It never blocks and never drops.
//   - [Inventory.Use], called by anyone: what the operator says of devices from
//     now on, taken in the same way.
//   - [Inventory.Latest], called by anyone: the newest [Snapshot] and a channel
//     that is closed when that snapshot is stale. Snapshots and the devices in
//     them are immutable. A slow reader skips versions, never blocks the
//     writer, and always ends on the newest.
//
// # Readings and checks
//
// A hint, the resync and the start cause full readings of cards. In between, at each
// [Config.HealthInterval], a card with which nothing is wrong is checked: the observations
// of its last reading ([Reading.Observed]) are compared with the present state, and the
// card is read only if one differs. A card with which something is wrong is read each time.
//
// # What may block
//
// Reading sysfs may block: behind an attribute stand MMIO, SPI and firmware. So
// each card is read in a goroutine of its own. A reading that does not come back
// within [Config.ReadTimeout] makes the devices of that card unhealthy
// (read-timeout), and holds up nobody else; what it brings later is not
// believed. A few more may be started beside it when news of that card arrives:
// it may have left. The loop itself never reads a file.
//
// A reading or a listing that meets the daemon's own trouble ([sysfs.OwnTrouble]: no
// descriptor, no memory) is discarded: devices keep their state, and it is repeated at the
// next health tick. The devices of a card that could not be read for that reason for
// [Config.TombstoneGrace] become unhealthy ([ReasonUnchecked]).
//
// Asking who holds what ([Config.Holders]) may block too, and is done in the same
// way, one question at a time.
//
// # What becomes of a device that leaves
//
// It is published as unhealthy at once. Nobody holds it: it is dropped. Somebody
// holds it, or it is not known: a tombstone stands for it on the list, until it is
// free or comes back. What comes back to its place is compared with what left: the
// same device passes its hold, another one waits until the old holder is gone.
// Without Holders nobody is asked, and what leaves is dropped.
//
// # Families
//
// A [Family] knows one kind of driver: where its cards stand and how to read
// one. It is stateless. What must be remembered between two readings (the last
// known AFU, which health files were ever there, since when a device is bad) is
// remembered here. A new family is one folder below this one and one line in
// the command's list of families.
package inventory
