// Package nodecondition decides whether a node's cards need attention, and reports the result in a Node condition.
//
//	judgement := nodecondition.New(inventory, book, ledger.Missing, ledger.Awaited, api.Ready)
//	go judgement.Run(ctx)                                         // decides, until ctx is done
//	verdict, stale := judgement.Latest()                          // for the check command
//	go judgement.Write(ctx, client, "worker-3", nodecondition.Type, log) // keeps the Node condition up to date
//
// # The decision
//
// The decision is made by [Judge], a pure function of a snapshot, the missing cards, the cordons and the previous
// verdict. Run calls it a second after each change, so that a newly plugged-in card, which is unhealthy for a few
// milliseconds, doesn't affect the verdict.
//
// # How it is written
//
// The condition is written when the verdict has changed, but at most every 10 s. If nothing changes, it is rewritten
// every 5 to 6 minutes, because the Node may have been deleted and recreated. Each write is a server-side apply of just
// this condition. A condition written by another program is replaced only if its type is in our own domain. Unknown
// isn't written until it has lasted for 10 s, so after a restart, the previous daemon's condition stays until the cards
// have been read.
//
// # Goroutines and their state
//
// Run and Write each run in a goroutine and share the newest verdict. Run never blocks on other parts of the daemon.
// Write owns its connections, and only Write waits for the API server.
package nodecondition
