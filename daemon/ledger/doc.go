// Package ledger remembers the cards of a node across restarts, upgrades and reboots: which cards were there, how often
// their health changed and they were removed, and which were bad, on hold or in quarantine.
//
//	cards := ledger.Open(ctx, ledger.Config{Dir: "/var/lib/accelerator-device-plugin", Metrics: m}, log)
//	inv := inventory.New(inventory.Config{Remembered: cards.Remembered(), …}, host, log)
//	go cards.Run(ctx, inv)             // follows the snapshots, writes the file
//	missing, changed := cards.Missing()
//
// # Missing cards
//
// A card is expected if it was present, and neither cordoned nor excluded, when it was last observed. An expected card
// that has not been found 10 s after the first complete list is missing, until it is found or forgotten. While its PCI
// function is on the bus, only its driver is late, and for up to an hour the card is not missing. A card that leaves
// while it is watched is no longer expected, unless it has failed: then it is missing, at once or when its driver is
// too late. A virtual function is never expected.
//
// # Failures
//
// What counts is the health of the hardware ([inventory.Device].Cause), even if the card is cordoned or in quarantine.
// A failure is noted and written at once. But it may consist only of what the kernel does before it removes a card. If
// the card is removed within 10 s, such a failure is taken back in the same write that records the removal. The metric
// waits for these 10 s.
//
// # The file
//
// The cards are in cards.json in the state directory: at most 256 in 64 KiB. If there are too many, the oldest changes
// and the cards that nobody expects are forgotten first, and those in quarantine last. A file that cannot be understood
// is renamed to cards.json.bad. During an upgrade two daemons follow the same cards. The daemon that holds the lock on
// cards.lock writes the file. The other one writes it after the first has ended. It does not write cards again that the
// first has forgotten, and does not expect cards that the first has seen leave.
//
// The file is written after a change, at most once a second, and once when the daemon ends. So a daemon that is killed
// loses one second of history.
//
// # State
//
// ledger.go contains the tasks, observe.go decides what is noted of a snapshot, and file.go reads and writes the file.
// A [Ledger] owns the cards. Run is called once. Missing, Counts and Forget are safe for concurrent use. Only Open and
// Forget wait for the disk, for 5 s at most, and Run does at its end, for 1 s at most. If the file system hangs, they
// leave one goroutine behind.
package ledger
