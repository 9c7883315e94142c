// Package inventory lists the FPGA devices of this node and judges their health.
//
// It takes hints as input and publishes snapshots. A hint says that a card may have changed, but not how. The card is
// then read again through its [Family], and the new reading is compared with the previous one.
//
//	hints, ticks ─► scheduler ── outcomes ─┐
//	holder poller ───────────── answers ───┼─► node ─► reconcile ─► snapshot, changes ─► log, metrics
//	Use ─────────────────────── policy ────┘
//
// The scheduler decides when each card is read. The node keeps one entry per device id. An entry contains the unit that
// is present, plus a reservation if a container holds (or may hold) the device. reconcile decides how each entry is
// published (reservation.go) and returns the changes. The node doesn't read the clock, write to the log or use
// channels.
//
// # Where things are
//
// bursts.go merges hints that come in bursts. scheduler.go decides when a card is read, list.go finds the cards, and
// results.go reads a card and interprets the result. health.go handles severities and recovery holds, and flaps.go
// handles quarantines. poller.go and holders.go keep track of the devices' holders, and policy.go defines the
// administrator's settings. The subdirectories contain the families and what they share: port for FPGA ports, pci for
// PCI functions.
//
// # Ownership
//
// [Inventory.Run] is the only writer. Its goroutine owns the scheduler, the poller and the node, so they don't need
// locks. Other goroutines use these methods:
//
//   - [Inventory.Hint] merges the hint into the pending ones and pokes the loop. It never blocks and never drops a
//     hint.
//   - [Inventory.Use] replaces the policy the same way.
//   - [Inventory.Forget] drops an absent card's history the same way.
//   - [Inventory.Latest] returns the newest [Snapshot] and a channel that is closed when a newer one is available.
//     Snapshots and the devices in them are immutable. A slow reader skips versions, never blocks the writer, and
//     always ends up with the newest snapshot. [Changes] compares it with the last snapshot that the reader used.
//   - [Inventory.Holdings] returns the newest answer about holders, which is also immutable.
//   - [Inventory.Alive] waits for the loop to respond.
//
// # Readings and checks
//
// Cards are read in full at startup, at each resync and after a hint. In between, a card without conditions is only
// checked every [Config.HealthInterval]: the observations from its last reading ([Reading.Observed]) are compared with
// the current state, and the card is read only if something differs. A card with conditions is read every time.
//
// # What may block
//
// Reading sysfs may block, because an attribute's value may have to be fetched through MMIO, SPI or firmware. So each
// card is read in a separate goroutine. A reading that doesn't return within [Config.ReadTimeout] makes the devices of
// that card unhealthy (read-timeout). It doesn't delay other cards, and its late result is discarded. Further hints can
// start a few more readings of that card, because it may have been replaced. The loop itself never reads a file.
//
// A reading or listing that fails because the daemon is out of file descriptors or memory ([sysfs.IsShortage]) is
// discarded. Devices keep their state, and the reading is retried at the next health tick. If a shortage keeps a card
// from being read for [Config.TombstoneGrace], its devices become unhealthy ([ReasonUnchecked]).
//
// [Config.Holders] may also block. It is called in a separate goroutine, one call at a time: at each resync, every
// [Config.HoldersInterval] while a device is held or is waiting for an answer, and shortly after an allocation
// ([Config.Given]). After an allocation, it is called repeatedly until an answer shows who holds the devices.
//
// # A device that leaves
//
// A device that leaves is published as unhealthy immediately. If it has no holder, it is then removed from the list. If
// it has a holder, or its holders aren't known, a reservation keeps it on the list until it is free or comes back. When
// a device is plugged into the same place, the inventory compares it with the one that left. If it is the same device,
// it is offered after the recovery hold; if not, only once the holder is gone. Without [Config.Holders] there are no
// reservations, and a device that leaves is removed from the list immediately.
//
// # A restart
//
// A device's [Memory] contains what is needed to resume its recovery hold and its quarantine after a restart. The next
// daemon passes it in as [Config.Remembered]; the inventory itself doesn't write any files. A device gets its history
// back as soon as its identity is known. A different card in the same slot starts with no history.
//
// # The mode
//
// The families of a [Policy] decide which units are devices, and its Name decides which resource each device belongs
// to. If a policy passed to [Inventory.Use] has different families, the inventory switches to them in three steps:
//
//   - All offered devices get a reservation and are published as unhealthy ([ReasonMoving]), before the inventory asks
//     for their holders. An allocation at that moment is therefore either rejected or included in the answer.
//   - All cards are listed and read again through the new families. The next snapshot is delayed by up to 250 ms to
//     wait for these readings.
//   - A device that is held under its old id or name stays listed under that id or name until it is free. If there is
//     no answer about holders, it stays listed for [Config.TombstoneGrace].
//
// # Families
//
// A [Family] lists and reads the cards that use one kind of driver. It is stateless: the node remembers the last known
// AFU, which health files have existed, and how long a device has been unhealthy. To add a family, create a
// subdirectory here and add a line to AllFamilies in package daemon.
package inventory
