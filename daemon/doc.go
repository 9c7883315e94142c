// Package daemon implements what the device plugin and the DRA driver share. It follows a node's devices, applies
// settings and cordons, and answers requests over HTTP and on the local socket. An [API] advertises the devices to
// Kubernetes.
//
//	settings, cordons, annotation ─► Serve ─► policy ─► inventory ─► snapshots ─► API
//	                                                        │
//	                                                        └─► HTTP, local socket, Kubernetes Events
//
// # Where things are
//
//   - daemon.go opens and closes what a daemon's tasks use, and run.go starts the tasks in order. Read both from top to
//     bottom. signals.go handles SIGHUP and SIGUSR1. node.go creates the watcher, the inventory and its policy.
//     settings.go follows the settings files, and annotation.go the node's annotation. naming.go defines which settings
//     determine the devices' names. log.go implements the log.
//   - state.go answers requests on the local socket and over HTTP, probes.go answers the kubelet's probes, cordons.go
//     serves the commands that change cordons, ledger.go opens the ledger, and metrics.go provides the values of the
//     gauges.
//
// # State
//
// A daemon has a single watcher, inventory, API, HTTP server and local socket for as long as it runs.
//
//   - The goroutine of [Daemon.Serve] owns the newest settings and the mode. They change when the files or the node's
//     annotation change, or on SIGHUP. Serve then makes a policy from them and the cordons, and hands it to the
//     inventory. The inventory and the API keep running. Settings that change the naming take effect once no other
//     daemon advertises the devices.
//   - [owner.Node] owns the node lock. Serve takes it under the newest settings' naming before any card is read, and
//     releases it after all tasks have ended. Until the daemon has the lock, it answers HTTP requests without an
//     inventory. A daemon that is waiting because of its naming reports that it is ready.
//   - [cordon.Book] owns the cordons. It is used by the "cordons" task and by requests on the local socket.
//   - [ledger.Ledger] owns what is remembered about the cards. The "ledger" task follows the snapshots.
//   - liveSettings holds the last files that were read, and belongs to Serve's goroutine. Any goroutine may load its
//     state field.
//   - stateSource combines the newest snapshot, settings, cordons and holders for each request. It only owns the signal
//     that one of them has changed.
//   - The task that follows the node's annotation owns the modeSelector. It passes the newest mode to Serve through a
//     buffered channel of size one.
//   - [Log] owns the log, its level and the lines that haven't been written yet.
//
// # What may block
//
// A daemon that follows the node's annotation first waits up to 3 s for the API server. The daemon then waits as long
// as the node is owned by a daemon for the other API or by one with a different naming. [API.Holders] and
// [inventory.Config.Holders] may wait for the kubelet; they are called by the inventory, by the recorder, and by
// requests over HTTP and on the local socket, each in its own goroutine. A cordon request waits up to 5 s for the state
// directory's disk. Logging never blocks.
package daemon
