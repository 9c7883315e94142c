// Package inventory lists the FPGA devices of this node and judges their health.
//
// It takes hints as input and publishes snapshots. A hint means that a card may have changed; it does not say how. The
// card is read again through its [Family], and the reading is compared with the last one.
//
//	hints, ticks ─► scheduler ── outcomes ─┐
//	holder poller ───────────── answers ───┼─► node ─► reconcile ─► snapshot, changes ─► log, metrics
//	Use ─────────────────────── policy ────┘
//
// The scheduler decides when each card is read. The node has one entry for each device id. An entry
// has the unit that is present, and the reservation on a device that a container holds or may hold.
// reconcile publishes each entry by one table (reservation.go) and returns the changes. The node reads
// no clock, writes no log and uses no channel.
//
// # Where things are
//
// bursts.go merges hints that come in bursts. scheduler.go decides when a card is read, list.go which cards there are,
// and results.go reads a card and says what the result means. health.go has severities and recovery holds, flaps.go the
// quarantine, holders.go what the answers about holders change, policy.go what the administrator has set. The
// directories are the families, and what they share: port for FPGA ports, pci for functions.
//
// # Ownership
//
// [Inventory.Run] is the only writer. Its goroutine owns the scheduler, the poller and the
// node, so they have no locks. Other goroutines use four methods:
//
//   - [Inventory.Hint] merges the hint into the set of pending ones and pokes the loop. It
//     never blocks and never drops a hint.
//   - [Inventory.Use] replaces the policy, in the same way.
//   - [Inventory.Latest] returns the newest [Snapshot] and a channel that is closed when
//     that snapshot is stale. Snapshots and the devices in them are immutable. A slow reader
//     skips versions, never blocks the writer, and always gets the newest snapshot in the
//     end. [Changes] compares that with the last one that the reader has taken.
//   - [Inventory.Holdings] returns the newest answer about holders, which is immutable, too.
//
// # Readings and checks
//
// A hint, the resync and the start cause full readings of cards. In between, at each
// [Config.HealthInterval], a card without conditions is checked: the observations of its last
// reading ([Reading.Observed]) are compared with the present state, and the card is read only if
// one differs. A card with conditions is read each time.
//
// # What may block
//
// Reading sysfs may block, because an attribute may need MMIO, SPI or firmware. So each card
// is read in a separate goroutine. A reading that does not return within [Config.ReadTimeout]
// makes the devices of that card unhealthy (read-timeout), and delays no other card; its late
// result is discarded. When a hint for that card arrives, a few more readings of it may be started,
// because the card may have been replaced. The loop itself never reads a file.
//
// A reading or a listing that fails because of a shortage ([sysfs.IsShortage]: no descriptor, no
// memory) is discarded. Devices keep their state, and the reading is repeated
// at the next health tick. The devices of a card that could not be read for that reason for
// [Config.TombstoneGrace] become unhealthy ([ReasonUnchecked]).
//
// [Config.Holders] may block, too. It is called in a separate goroutine, one call at a time: with
// each resync; soon after devices were given out ([Config.Given]), until the answer names their
// holders; and each [Config.HoldersInterval] while a device is held or waits for the answer.
//
// # A device that leaves
//
// A device that leaves is published as unhealthy at once. If it has no holder, it is removed
// from the list. If it has a holder, or its holders are not known, a reservation keeps it on the list
// until it is free or returns. A device that is plugged into its place is compared with it. The
// same device is offered after the recovery hold, another device when the holder is gone. Without
// [Config.Holders] there are no reservations, and a device that leaves is removed from the list at once.
//
// # A restart
//
// The history of a device, for the recovery hold and the quarantine, is in its Memory, which a later daemon hands over
// as [Config.Remembered]. The inventory itself writes no file. A device takes up its history when its identity is
// known. Another card in the slot does not.
//
// # The mode
//
// The families of a [Policy] decide which units are devices, and its Name decides which
// resource each device belongs to. If the policy of [Inventory.Use] has other families, the
// inventory takes them over in three steps:
//
//   - All offered devices get a reservation and are published as unhealthy ([ReasonMoving]), before
//     the question for their holders is asked. So an allocation of that moment is either
//     refused, or included in the answer.
//   - All cards are listed and read again through the new families. The next snapshot waits
//     for these readings for up to 250 ms.
//   - A device that is held under its former id or name stays listed under it until it is
//     free. Without an answer about holders it stays for [Config.TombstoneGrace].
//
// # Families
//
// A [Family] lists and reads the cards of one kind of driver. It is stateless: the node keeps the
// last known AFU, the health files that have existed, and the time since when a device is
// unhealthy. A new family is one folder below this one and one line in AllFamilies of package daemon.
package inventory
