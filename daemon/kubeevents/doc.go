// Package kubeevents writes Kubernetes Events about the devices. These are core/v1 Events on the Node, and on each Pod
// that holds a device that has failed or left.
//
//	events := kubeevents.New(kubeevents.Config{Node: "worker-3", Client: client}, log)
//	go events.Run(ctx)                             // writes the Events, until ctx is done
//	err := events.Follow(ctx, inventory, holders)  // follows the devices, until ctx is done
//
// # Which Events are written
//
// A second after the inventory has published a snapshot, Follow compares the newest snapshot with the states last
// reported in Events ([inventory.Changes]). A state that lasts less than a second therefore appears in the log but
// doesn't cause an Event. There is no Event for a healthy device that is found at startup or after a mode change.
// docs/events.md explains the Events' reasons.
//
// # How they are written
//
// There is one Event for each combination of object, reason and device, and its count goes up with each occurrence. It
// is written at most every 10 s, with the newest message. All Events together are limited to a burst of 25 plus one
// every 5 s; the rest are counted and dropped. A failed write is retried until 5 minutes after the Event's last
// occurrence, unless the Event has been permanently rejected or its pod is gone.
//
// # Goroutines and their state
//
// Follow and Run each run in a goroutine. Follow owns the devices' states. It blocks only while it asks for holders,
// and skips any snapshots that are published in the meantime. Run owns the connections, and blocks while it waits for
// the API server. Follow and Run share a table of at most 512 Events. The table's lock isn't held while Follow asks for
// holders, or during requests.
package kubeevents
