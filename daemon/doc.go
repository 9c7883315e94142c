// Package daemon implements what the device plugin and the DRA driver have in common. It follows a node's devices,
// applies settings and cordons, and answers requests over HTTP and on the local socket. An [API] advertises the devices
// to Kubernetes.
//
//	settings, cordons, annotation ─► Serve ─► policy ─► inventory ─► snapshots ─► API
//	                                                        │
//	                                                        └─► HTTP, local socket, Kubernetes Events
//
// # Where things are
//
//   - daemon.go opens and closes what the tasks use, and run.go starts the tasks in order. Both are meant to be read
//     from top to bottom. signals.go handles SIGHUP and SIGUSR1. node.go creates the watcher, the inventory and its
//     policy. settings.go follows the settings files, and annotation.go follows the node's annotation. naming.go
//     defines which settings affect the devices' names. log.go implements the log.
//   - state.go answers requests on the local socket and over HTTP, probes.go answers the kubelet's probes, cordons.go
//     serves the commands that change cordons, ledger.go opens the ledger, and metrics.go provides the values of the
//     gauges.
//
// # State
//
// For as long as it runs, a daemon has a single watcher, inventory, API, HTTP server and local socket.
//
//   - The goroutine that calls [Daemon.Serve] owns the newest settings and the mode. They change when the files or the
//     node's annotation change, or on SIGHUP. Serve then makes a policy from them and the cordons, and passes it to the
//     inventory. The inventory and the API keep running. Settings that change the naming take effect once no other
//     daemon is advertising the devices.
//   - [owner.Node] owns the node lock. Serve acquires it, with the naming from the newest settings, before any card is
//     read, and releases it after all tasks have ended. Until the daemon has the lock, it answers HTTP requests without
//     an inventory. If it is waiting only because another daemon has a different naming, it reports that it is ready.
//   - [cordon.Book] owns the cordons. It is used by the "cordons" task and by requests on the local socket.
//   - [ledger.Ledger] owns what is remembered about the cards. The "ledger" task follows the snapshots.
//   - liveSettings holds the last files that were read. It belongs to Serve's goroutine, but any goroutine may load its
//     state field.
//   - stateSource combines the newest snapshot, settings, cordons and holders for each request. All it owns is the
//     signal that one of them has changed.
//   - The task that follows the node's annotation owns the modeSelector. It passes the newest mode to Serve through a
//     channel with a buffer of one.
//   - [Log] owns the log level and the lines that haven't been written yet.
//
// # What may block
//
// A daemon that follows the node's annotation first waits up to 3 s for the API server. Any daemon then waits for as
// long as the node is owned by a daemon for the other API or by one with a different naming. [API.Holders] and
// [inventory.Config.Holders] may wait for the kubelet; the inventory, the recorder, and requests over HTTP and on the
// local socket call them, each in its own goroutine. A cordon request waits up to 5 s for the state directory's disk.
// Logging never blocks.
package daemon
