// Package owner decides which daemons may advertise a node's devices. At any one time, only daemons for a single
// Kubernetes API (the device plugin API or DRA) may do so, and only if they give the devices the same names. All other
// daemons must wait, because they could give the same device to a second container.
//
//	node := owner.New("/var/lib/accelerator-device-plugin", control.DRA, log)
//	err := node.Take(ctx, naming)  // blocks while a daemon for the device plugin API, or one with a different naming, owns the node
//	…                              // offers devices
//	node.Leave(ctx, deleteSlices)  // if this is the last daemon for its API, withdraws the devices
//
// # The locks
//
// Each API has a lock file in the state directory, owner-devicePlugin.lock or owner-dra.lock. Each daemon that owns the
// node holds a shared lock (flock) on its API's file until it exits, so several daemons for the same API can own the
// node at once, as happens during an upgrade. A daemon gets the lock only if no daemon holds a lock on the other API's
// file.
//
// Each owner also marks the file with its [Naming] ([privatedir.Mark]). The mark is a shared lock on a single byte,
// whose offset is the hash of the settings that determine the devices' names. A daemon gets the lock only if it is
// alone, or if all other owners have the same mark and no other. Older versions of the daemon don't set a mark, so they
// count as having a different naming. The mark doesn't need its own file or any space, because even a byte beyond the
// end of the file can be locked.
//
// These steps are atomic, because daemons hold owner.lock (for a few milliseconds) while taking them.
//
// If a daemon is killed, the kernel releases its locks, so locks are only held while their owners are alive.
//
// # The record
//
// If a driver is killed, its ResourceSlices stay in the API server. So DRA's lock file also serves as a record: it is
// on disk before the first driver owns the node, and the last driver removes it after withdrawing the devices. If the
// file exists but no daemon holds a lock on it, there may still be slices. A device plugin that finds such a file owns
// the node, but waits until the kubelet has removed the slices, and then removes the file. It does so even after a
// reboot. The content of the files is never read, so it can't be wrong.
//
// In contrast, if a device plugin is killed, a driver doesn't have to wait for its devices, because the kubelet notices
// immediately that the plugin's streams have ended, and marks the devices as unhealthy. So the device plugin's lock
// file isn't a record. It stays on disk so that a device plugin that has run on the node before can start even if the
// disk is full or read-only.
//
// Pods may still have claims after the last driver has left. owner-dra.boot contains the ID of the boot in which a
// driver last owned the node. After a reboot, no container can still have a device from a claim, so a device plugin
// doesn't have to find out which devices are held ([Node.OtherMayHold]).
//
// If a file or the directory can't be used or is on a network file system, or if the file system hangs, the daemon logs
// the error, waits and tries again. Without the lock, it doesn't advertise anything. There are two ways to defeat the
// lock: using different state directories for the two APIs, and removing a running daemon's lock file.
//
// # Changing names while a daemon is running
//
// While a daemon owns the node, its settings may change, for example the node's mode. If it is the only owner,
// [Node.Rename] changes its naming. Until the old names have been withdrawn ([Node.Renamed]), the daemon keeps both
// marks, so no other daemon can own the node. If it isn't the only owner, it keeps its old names and tries again later.
// So while two daemons run side by side, neither of them gets new names, but during an upgrade, one of them soon exits.
//
// # Order
//
// There is no queue. While daemons for one API own the node, more daemons for this API with the same naming can join
// them immediately. All others wait until the last owner has exited. An endless sequence of overlapping upgrades would
// keep them waiting forever; to end this, an administrator can remove the daemons that shouldn't be running.
//
// # What may block
//
// A [Node] owns its lock. Call Take, then Rename and Renamed, then Leave, one at a time. All of them access the disk.
// Take blocks until the daemon owns the node, Rename and Renamed block for up to 1 s, and Leave for up to 7 s. If the
// file system hangs, each of them leaves a goroutine behind (Take only when its context is done), and until that
// goroutine has returned, further calls fail immediately. [Node.Waiting] and [Node.WaitsFor] don't block and are safe
// for concurrent use.
package owner
