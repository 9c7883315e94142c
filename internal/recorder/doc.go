// Package recorder writes Kubernetes Events about the devices: Events of core/v1 on the
// Node, and on each Pod that holds a device which failed or left.
//
//	events := recorder.New(recorder.Config{Node: "worker-3", Client: client}, log)
//	go events.Run(ctx)                             // writes the Events, until ctx ends
//	err := events.Follow(ctx, inventory, holders)  // follows the devices, until ctx ends
//
// # Which Events there are
//
// Follow takes the changes between each snapshot of the inventory and the last one that
// it has seen ([inventory.Changes]), and keeps for each device its state and when that
// began. A second after a change, the states are compared with those that Events have
// reported. A state that lasts less than a second has no Event; the log has it. There is
// no Event for a healthy device that is found at the start, or when other families are
// taken over. The reasons are a closed list, see [Reasons]; docs/events.md explains them.
//
// # How they are written
//
// There is one Event for each object, reason and device: when it happens again, its count
// grows. It is written every 10 s at most, with the newest message. All Events together
// have 25 at once and one more every 5 s; the rest is counted and dropped. An Event that
// the API server does not take is tried again, paced, for 5 minutes. An Event that is
// refused for good, or is about a pod that has ended, is given up at once.
//
// # Who owns what, what may block
//
// Follow and Run are a goroutine each. Follow owns the states of the devices. It blocks
// only in the question who holds them, and skips the snapshots of that time. Run owns the
// connections, and waits for the API server. Between them is a table of at most 512
// Events, behind a lock that is not held over a question or a request.
package recorder
