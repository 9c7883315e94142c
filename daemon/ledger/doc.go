// Package ledger remembers a node's cards across restarts, upgrades and reboots: which cards were there, how often
// their health changed, how often they were removed, and which ones were bad, on hold or in quarantine.
//
//	cards := ledger.Open(ctx, ledger.Config{Dir: "/var/lib/accelerator-device-plugin", Metrics: m}, log)
//	inv := inventory.New(inventory.Config{Remembered: cards.Remembered(), …}, host, log)
//	go cards.Run(ctx, inv)             // follows the snapshots, writes the file
//	missing, changed := cards.Missing()
//
// # Missing cards
//
// A card is expected if it was present and neither cordoned nor excluded when it was last observed. If an expected card
// hasn't been found 10 s after the first complete list, it is missing until it is found or forgotten. If its PCI
// function is on the bus, only its driver is late, and the card doesn't count as missing for up to an hour. A card that
// leaves while it is being watched is no longer expected, unless it had failed. In that case, it is missing, either
// immediately or once its driver is too late. Virtual functions are never expected.
//
// # Failures
//
// The ledger records the health of the hardware ([inventory.Device].Cause), even if the card is cordoned or in
// quarantine. A failure is recorded and written immediately, even though it may just be one of the steps in which the
// kernel removes a card. If the card is indeed removed within 10 s, such a failure is deleted by the same write that
// records the removal. The metric doesn't count a failure until those 10 s are over.
//
// # The file
//
// cards.json in the state directory stores up to 256 cards in up to 64 KiB. If that isn't enough, the oldest changes
// and cards that aren't expected are forgotten first, and cards in quarantine last. A file that can't be parsed is
// renamed to cards.json.bad. During an upgrade, two daemons follow the same cards. The one that holds the lock on
// cards.lock writes the file, and the other one takes over when it exits. The second daemon doesn't bring back cards
// that the first has forgotten, and doesn't expect cards that the first has seen leave.
//
// The file is written after changes, but not more than once a second, and once more when the daemon exits. A daemon
// that is killed loses up to a second of history.
//
// # State
//
// ledger.go contains the tasks, observe.go decides what to record from a snapshot, and file.go reads and writes the
// file. A [Ledger] owns the cards. Run must be called only once. Missing, Counts and Forget are safe for concurrent
// use. Open and Forget wait up to 5 s for the disk. Before it returns, Run waits up to 1 s for it. Nothing else waits
// for the disk. If the file system hangs, one goroutine is left behind.
package ledger
