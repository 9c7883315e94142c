// Package recorder tells Kubernetes what becomes of the devices: Events of core/v1
// on the Node, and on each Pod that holds a device which failed or left.
//
//	events := recorder.New(recorder.Config{Node: "worker-3", Client: client}, log)
//	go events.Run(ctx)                              // writes, until ctx ends
//	err := events.Follow(ctx, inventory, whoHolds)  // says what changes, until ctx ends
//
// # What is said
//
// Follow compares one snapshot of the inventory with the one before. News has a
// second to settle, so what lasts less is not said; the log has it. The snapshots of
// that second are glanced at, so that what is said has the time at which it was seen.
// What is well at the start is not said, what is bad is said once. The reasons are a
// closed list, see [Reasons]; docs/events.md explains them.
//
// # How it is written
//
// One Event for each object, reason and device: it happens again, its count grows.
// It is written every 10 s at most, as it is then. All Events together have 25 at
// once and one more every 5 s; what is more is counted, and left out. What the API
// server does not take is tried again, paced, for 5 minutes. What is refused for
// good, or is about a pod that has ended, is given up at once.
//
// # Who owns what, what may block
//
// Follow and Run are a goroutine each. Follow owns what was seen of the devices,
// which outlives it: after a change of mode another Follow goes on with that; there
// is one at a time. It waits for nobody but whoHolds, and nobody waits for it:
// snapshots that it is too late for are skipped. Run owns the connections, and
// waits for the API server. Between them is a table of at most 512 Events, behind a
// lock that is not held over a question or a request.
package recorder
