// Package nodecondition decides whether the cards of a node need attention, and writes the answer to a condition of
// the Node.
//
//	judgement := nodecondition.New(inventory, book, ledger.Missing, ledger.Awaited, api.Ready)
//	go judgement.Run(ctx)                                         // decides, until ctx ends
//	verdict, stale := judgement.Latest()                          // for the command check
//	go judgement.Write(ctx, client, "worker-3", nodecondition.Type, log) // keeps the condition of the Node up to date
//
// # The decision
//
// [Judge] is the only place that decides. It is a pure function of a snapshot, the missing cards, the cordons and the
// previous verdict. Run calls it a second after each change. So a card that has just been plugged in, and is unhealthy
// for some milliseconds, changes nothing.
//
// # How it is written
//
// The condition is written when the verdict has changed, but at most every 10 s. Without a change it is written every 5
// to 6 minutes, because the Node may have been deleted and created again. Each write is a server-side apply of this one
// condition. A condition that another program has written is replaced only if its type is in our own domain. Unknown is
// written only after it has lasted for 10 s. So after a restart of the daemon, the condition of the previous one stays
// until the cards have been read.
//
// # Goroutines and their state
//
// Run and Write each run in a goroutine. They share the newest verdict. Run never blocks on another part of the daemon.
// Write owns its connections, and only it waits for the API server.
package nodecondition
