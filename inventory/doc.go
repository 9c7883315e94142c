// Package inventory knows which FPGA devices this node has, and how they are.
//
// It is fed with hints ("something may have changed on this card") and
// answers with snapshots. A hint is never believed: the card it names is read
// again through its [Family] and compared with what was known.
//
//	hints, ticks ─► scheduler ── readings ─┐
//	holder poller ───────────── answers ───┼─► node ─► reconcile ─► snapshot, changes ─► log, metrics
//	Use ─────────────────────── policy ────┘
//
// The scheduler decides which card is read when, and knows no device. The node holds one slot
// for each device id: what is present there, and what is claimed, that is, promised to a
// container. reconcile publishes each slot by one table (reconcile.go) and returns what changed.
// The node reads no clock, writes no log and uses no channel.
//
// # Who owns what
//
// [Inventory.Run] is the only writer. Its goroutine owns the scheduler, the poller and the
// node, so there are no locks around them. Three things cross its border:
//
//   - [Inventory.Hint], called by anyone: merges the hint into the set of
//     pending ones and pokes the loop. It never blocks and never drops.
//   - [Inventory.Use], called by anyone: the policy from now on, taken in the same way.
//   - [Inventory.Latest], called by anyone: the newest [Snapshot] and a channel
//     that is closed when that snapshot is stale. Snapshots and the devices in
//     them are immutable. A slow reader skips versions, never blocks the
//     writer, and always ends on the newest. [Changes] compares what it has seen with that.
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
// (read-timeout), and delays no other card; its late result does not count. A few more may be
// started beside it when news of that card arrives: it may have left. The loop itself never
// reads a file.
//
// A reading or a listing that meets the daemon's own trouble ([sysfs.OwnTrouble]: no
// descriptor, no memory) is discarded: devices keep their state, and it is repeated at the
// next health tick. The devices of a card that could not be read for that reason for
// [Config.TombstoneGrace] become unhealthy ([ReasonUnchecked]).
//
// Asking for the holders of devices ([Config.Holders]) may block too, and is done in the same
// way, one question at a time.
//
// # A device that leaves
//
// A device that leaves is published as unhealthy at once. If it has no holder, it is taken off
// the list. If it has one, or that is not known, a claim keeps it on the list until it is free
// or comes back. The device that comes to its place is compared with the one that left: the
// same device passes its recovery hold, another one waits until the holder is gone. Without
// [Config.Holders] there are no claims, and a device that leaves is off the list.
//
// # The mode
//
// The families of a [Policy] decide what becomes a device, and its Name under which resource. If
// [Inventory.Use] brings other families, every card is listed and read again through them, and
// the next snapshot waits for that for up to 250 ms. A device that is held under an id or a name
// of before stays listed under it.
//
// # Families
//
// A [Family] knows one kind of driver: where its cards stand and how to read
// one. It is stateless: the last known AFU, the health files that were ever there, and since
// when a device is bad are kept here. A new family is one folder below this one and one line in
// the command's list of families.
package inventory
