// Package inventory lists the FPGA devices of this node and judges their health.
//
// It takes hints as input and publishes snapshots. A hint means that a card may have changed; it does not say how. The
// card is read again through its [Family], and the reading is compared with the last one.
//
//	hints, ticks ─► scheduler ── outcomes ─┐
//	holder poller ───────────── answers ───┼─► node ─► reconcile ─► snapshot, changes ─► log, metrics
//	Use ─────────────────────── policy ────┘
//
// The scheduler decides when each card is read. The node keeps one entry for each device id. An entry contains the unit
// that is present, and the reservation on a device that a container holds or may hold. reconcile decides how each entry
// is published (reservation.go) and returns the changes. The node reads no clock, writes no log and uses no channel.
//
// # Where things are
//
// bursts.go merges hints that come in bursts. scheduler.go decides when a card is read, list.go finds the cards, and
// results.go reads a card and interprets the result. health.go deals with severities and recovery holds, flaps.go with
// the quarantine, poller.go and holders.go with the holders of devices, and policy.go with the administrator's
// settings. The subdirectories contain the families and what they share: port for FPGA ports, pci for PCI functions.
//
// # Ownership
//
// [Inventory.Run] is the only writer. Its goroutine owns the scheduler, the poller and the node, so these need no
// locks. Other goroutines use these methods:
//
//   - [Inventory.Hint] merges the hint into the set of pending ones and pokes the loop. It
//     never blocks and never drops a hint.
//   - [Inventory.Use] replaces the policy, in the same way.
//   - [Inventory.Forget] drops the history of an absent card, in the same way.
//   - [Inventory.Latest] returns the newest [Snapshot] and a channel that is closed when that snapshot is stale.
//     Snapshots and the devices in them are immutable. A slow reader skips versions, never blocks the writer, and
//     always gets the newest snapshot in the end. [Changes] compares it with the last snapshot that the reader has
//     used.
//   - [Inventory.Holdings] returns the newest answer about holders, which is also immutable.
//   - [Inventory.Alive] waits until the loop answers.
//
// # Readings and checks
//
// Cards are read in full at the start, at each resync and after a hint. In between, at each [Config.HealthInterval], a
// card without conditions is checked: the observations of its last reading ([Reading.Observed]) are compared with the
// present state, and the card is read only if one differs. A card with conditions is read each time.
//
// # What may block
//
// Reading sysfs may block, because an attribute may need MMIO, SPI or firmware. So each card is read in a separate
// goroutine. A reading that does not return within [Config.ReadTimeout] makes the devices of that card unhealthy
// (read-timeout). It does not delay other cards, and its late result is discarded. When a hint for that card arrives, a
// few more readings of it may be started, because the card may have been replaced. The loop itself never reads a file.
//
// A reading or a listing that fails because of a shortage ([sysfs.IsShortage]: no descriptor, no
// memory) is discarded. Devices keep their state, and the reading is repeated
// at the next health tick. The devices of a card that could not be read for that reason for
// [Config.TombstoneGrace] become unhealthy ([ReasonUnchecked]).
//
// [Config.Holders] may block, too. It is called in a separate goroutine, one call at a time: at each resync, soon after
// devices were given out ([Config.Given]) until the answer names their holders, and every [Config.HoldersInterval]
// while a device is held or waits for an answer.
//
// # A device that leaves
//
// A device that leaves is published as unhealthy at once. If it has no holder, it is removed from the list. If it has a
// holder, or its holders are not known, a reservation keeps it on the list until it is free or returns. When a device
// is plugged into its place, the two are compared. The same device is offered after the recovery hold. Another device
// is offered only after the holder has gone. Without [Config.Holders] there are no reservations, and a device that
// leaves is removed from the list at once.
//
// # A restart
//
// The [Memory] of a device contains what its recovery hold and its quarantine need to continue after a restart. The
// next daemon passes it on as [Config.Remembered]; the inventory itself writes no file. A device continues its history
// as soon as its identity is known. Another card in the slot starts without one.
//
// # The mode
//
// The families of a [Policy] decide which units are devices, and its Name decides which
// resource each device belongs to. If the policy of [Inventory.Use] has other families, the
// inventory takes them over in three steps:
//
//   - All offered devices get a reservation and are published as unhealthy ([ReasonMoving]), before the question for
//     their holders is asked. An allocation at that moment is therefore either refused or included in the answer.
//   - All cards are listed and read again through the new families. The next snapshot waits
//     for these readings for up to 250 ms.
//   - A device that is held under its former id or name stays listed under it until it is
//     free. Without an answer about holders it stays for [Config.TombstoneGrace].
//
// # Families
//
// A [Family] lists and reads the cards of one kind of driver. It is stateless: the node keeps the last known AFU, the
// health files that have existed, and since when a device has been unhealthy. A new family is one folder below this one
// and one line in AllFamilies of package daemon.
package inventory
