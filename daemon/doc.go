// Package daemon implements what the device plugin and the DRA driver share. It follows the devices of a node, applies
// settings and cordons, and answers requests over HTTP and at the local socket. An [API] advertises the devices to
// Kubernetes.
//
//	settings, cordons, annotation ─► Serve ─► policy ─► inventory ─► snapshots ─► API
//	                                                        │
//	                                                        └─► HTTP, local socket, Kubernetes Events
//
// # Where things are
//
//   - daemon.go opens and closes what the tasks of a daemon use, and run.go starts the tasks in their order. Read both
//     from top to bottom. signals.go handles SIGHUP and SIGUSR1. node.go makes the watcher, the inventory and its
//     policy. settings.go follows the files of settings, and annotation.go the node's annotation. naming.go defines which
//     settings decide the names of devices. log.go implements the log.
//   - state.go answers requests at the local socket and over HTTP, probes.go those of the kubelet, cordons.go serves the
//     commands that change cordons, ledger.go opens the ledger, and metrics.go provides the values of the gauges.
//
// # State
//
// There is one watcher, inventory, API, HTTP server and local socket for the life of a daemon.
//
//   - The goroutine of [Daemon.Serve] owns the newest settings and the mode. Changed files, SIGHUP and the node's
//     annotation change them. Serve makes a policy from them and the cordons, and hands it to the inventory. The
//     inventory and the API keep running. Settings that change the naming take effect once no other daemon advertises the
//     devices.
//   - [owner.Node] owns the lock of the node. Serve takes it before a card is read, under the naming of the newest
//     settings, and leaves it after all tasks have ended. HTTP is served before that, with other answers. A daemon that
//     waits because of its naming is ready.
//   - [cordon.Book] owns the cordons. The task "cordons" and the requests at the local socket use it.
//   - [ledger.Ledger] owns what is remembered of the cards. The task "ledger" follows the snapshots.
//   - liveSettings holds the files that were read last, and belongs to the goroutine of Serve. Any goroutine
//     may load its field state.
//   - stateSource joins the newest snapshot, settings, cordons and holders for each request. It owns
//     only the signal that one of them has changed.
//   - The task that follows the node's annotation owns the modeSelector. It hands over the newest mode
//     through a channel of size one.
//   - [Log] owns the log, its level and the lines that are not written yet.
//
// # What may block
//
// If the annotation is followed, the start waits up to 3 s for the API server. Then it waits until no daemon of the other
// API owns the node, and no daemon with another naming. [API.Holders] and [inventory.Config.Holders] may wait for the
// kubelet. They run in goroutines of the inventory, of the recorder, and of requests over HTTP and at the local socket. A
// request to cordon waits for the disk of the state directory, for 5 s at most. Logging never blocks.
package daemon
