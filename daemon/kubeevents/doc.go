// Package kubeevents writes Kubernetes Events about the devices. They are core/v1 Events on the Node, and on each Pod
// that holds a device which failed or left.
//
//	events := kubeevents.New(kubeevents.Config{Node: "worker-3", Client: client}, log)
//	go events.Run(ctx)                             // writes the Events, until ctx is done
//	err := events.Follow(ctx, inventory, holders)  // follows the devices, until ctx is done
//
// # Which Events are written
//
// A second after the inventory has published a snapshot, Follow compares the newest snapshot with the states reported
// by the last Events ([inventory.Changes]). So a state that lasts less than a second appears in the log but doesn't get
// an Event. There is no Event for a healthy device that is found at startup or after a mode change. docs/events.md
// explains the reasons.
//
// # How they are written
//
// There is one Event for each combination of object, reason and device, and its count grows each time it occurs again.
// It is written at most every 10 s, with the newest message. All Events together are limited to a burst of 25 plus one
// every 5 s; any others are counted and dropped. If writing an Event fails, it is retried until 5 minutes after its
// last occurrence. An Event that is permanently rejected, or that is about a pod that has ended, is given up
// immediately.
//
// # Goroutines and their state
//
// Follow and Run each run in a goroutine. Follow owns the devices' states. It blocks only while it asks for their
// holders, and skips any snapshots published during that time. Run owns the connections, and blocks while it waits for
// the API server. They share a table of at most 512 Events. Its lock isn't held while Follow asks for holders or during
// a request.
package kubeevents
