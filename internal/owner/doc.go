// Package owner decides which API of Kubernetes offers the devices of a node: the device plugin API, or DRA.
// Never both, because each would give the same device to a container.
//
//	node := owner.New("/var/lib/accelerator-device-plugin", control.DRA, log)
//	err := node.Take(ctx)          // blocks while a daemon of the device plugin API owns the node
//	…                              // offers devices
//	node.Leave(ctx, deleteSlices)  // the last daemon of its API withdraws the devices
//
// # The locks
//
// Each API has a lock file in the state directory, owner-devicePlugin.lock or owner-dra.lock. Each daemon that owns
// the node has a shared lock (flock) on the file of its API until it ends. So several daemons of one API may own
// the node, as in an upgrade. A daemon gets the lock only if no daemon has a lock on the other file. The lock on
// owner.lock makes these steps one. It is held for some milliseconds.
//
// A kill at any moment releases the locks. The kernel, not a record, knows whether an owner is alive.
//
// # The record
//
// ResourceSlices remain on the API server after a driver was killed. So the lock file of DRA is also a record: it is on
// the disk before the first driver owns the node, and the last one removes it after it has withdrawn the devices. If no
// daemon has a lock on it, slices may remain. A device plugin that finds it owns the node, but waits until the kubelet
// has removed the slices, and removes the file then. It does so after a reboot, too. The content of the files is never
// read, so it cannot be wrong.
//
// A driver does not wait for the devices of a device plugin that was killed: the kubelet notices the end of its
// streams at once, and then has no healthy device of it. So the lock file of the device plugin is no record. It stays, so
// that a device plugin that has once run on the node starts although the disk is full or read-only.
//
// If a file or the directory cannot be used, the daemon waits, logs the error, and tries again. It offers
// nothing without the lock. Two things defeat the lock: a state directory that the two APIs do not share, and a lock
// file that an administrator removes while its daemon runs.
//
// # Order
//
// There is no queue. While daemons of one API own the node, others of this API start at once, and the other API
// waits until the last one has ended. An endless sequence of overlapping upgrades would delay it for ever: an
// administrator ends this by removing the API that shall not run.
//
// # What may block
//
// A [Node] owns its lock. Take and Leave are called once, in this order, by one goroutine. They access the disk, and
// start no goroutines. Take blocks until the node is owned, and Leave for up to 6 s. Waiting does not block, and is
// safe for concurrent use.
package owner
