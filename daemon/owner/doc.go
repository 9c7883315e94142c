// Package owner decides which daemons may advertise a node's devices. Only daemons for one Kubernetes API (the device
// plugin API or DRA) may do so at the same time, and only if they give the devices the same names. Any other daemon
// must wait, because it could give the same device to a second container.
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
// node, as happens during an upgrade. A daemon gets the lock only if no daemon holds a lock on the other API's file.
//
// Each owner also marks its [Naming] on the file ([privatedir.Mark]). The mark is a shared lock on a single byte, whose
// offset is the hash of the settings that determine the devices' names. A daemon gets the lock only if it is alone, or
// if all other owners have the same mark as the daemon and no other mark. A daemon of an older version doesn't set a
// mark, so it counts as having a different naming. The mark doesn't need its own file or any space, because even a byte
// beyond the end of the file can be locked.
//
// Taking owner.lock for a few milliseconds makes these steps atomic.
//
// If a daemon is killed, the kernel releases its locks, so a lock is held only while its owner is alive.
//
// # The record
//
// ResourceSlices remain in the API server after a driver has been killed. DRA's lock file therefore also serves as a
// record: it is on disk before the first driver owns the node, and the last driver removes it after withdrawing the
// devices. If the file exists but no daemon holds a lock on it, slices may remain. A device plugin that finds such a
// file owns the node, but waits until the kubelet has removed the slices, and then removes the file. It also does this
// after a reboot. The content of the files is never read, so it can't be wrong.
//
// A driver doesn't have to wait for the devices of a device plugin that was killed. The kubelet notices immediately
// that the plugin's streams have ended, and marks its devices as unhealthy. The device plugin's lock file is therefore
// not a record. It stays on disk so that a device plugin that has run on the node before can start even if the disk is
// full or read-only.
//
// Pods may still have claims after the last driver has left. The file owner-dra.boot contains the id of the boot in
// which a driver last owned the node. After a reboot, no container can have a claim's device, so a device plugin need
// not find out which devices are held ([Node.OtherMayHold]).
//
// If a file or the directory can't be used or is on a network file system, or if the file system hangs, the daemon logs
// the error, waits and tries again. Without the lock it doesn't advertise anything. Two things defeat the lock: a state
// directory that the two APIs don't share, and an administrator who removes a running daemon's lock file.
//
// # Changing names while a daemon is running
//
// While a daemon owns the node, its settings may change, for example the node's mode. If the daemon is the only owner,
// [Node.Rename] changes its naming. Until the old names have been withdrawn ([Node.Renamed]), the daemon keeps both
// marks, so no other daemon can own the node. If the daemon isn't the only owner, it keeps its old names and tries
// again. While two daemons run side by side, neither of them gets new names, but during an upgrade one of them exits
// soon.
//
// # Order
//
// There is no queue. While daemons for one API own the node, more daemons for this API with the same naming can own it
// immediately. All others wait until the last owner has exited. An endless sequence of overlapping upgrades would delay
// them forever. An administrator can end this by removing the daemons that shouldn't be running.
//
// # What may block
//
// A [Node] owns its lock. Call Take, then Rename and Renamed, then Leave, one at a time. All of them access the disk.
// Take blocks until the daemon owns the node, Rename and Renamed block for up to 1 s, and Leave for up to 7 s. If the
// file system hangs, each of them leaves a goroutine behind (Take only when its context is done), and further calls
// fail immediately until the goroutine has returned. [Node.Waiting] and [Node.WaitsFor] don't block and are safe for
// concurrent use.
package owner
