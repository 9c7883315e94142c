// Package kubeevents writes Kubernetes Events about the devices: Events of core/v1 on the
// Node, and on each Pod that holds a device which failed or left.
//
//	events := kubeevents.New(kubeevents.Config{Node: "worker-3", Client: client}, log)
//	go events.Run(ctx)                             // writes the Events, until ctx ends
//	err := events.Follow(ctx, inventory, holders)  // follows the devices, until ctx ends
//
// # Which Events are written
//
// A second after the inventory has published a snapshot, Follow compares the newest snapshot with the states that the
// last Events have reported ([inventory.Changes]). So a state that lasts less than a second appears in the log, but
// gets no Event. There is no Event for a healthy device that is found at the start or after a change of mode.
// docs/events.md explains the reasons.
//
// # How they are written
//
// There is one Event for each object, reason and device; its count grows with each repetition.
// It is written at most every 10 s, with the newest message. All Events together are limited to
// a burst of 25 and one more every 5 s; the others are counted and dropped. If writing an Event
// fails, it is tried again until 5 minutes after the last repetition. An Event that is refused for
// good, or is about a pod that has ended, is given up at once.
//
// # Goroutines and their state
//
// Follow and Run each run in a goroutine. Follow owns the states of the devices. It blocks only while it asks for their
// holders, and skips the snapshots of that time. Run owns the connections, and blocks while it waits for the API
// server. They share a table of at most 512 Events. Its lock is held neither while Follow asks for holders nor during a
// request.
package kubeevents
