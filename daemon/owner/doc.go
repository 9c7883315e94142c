// Package owner decides which daemons offer the devices of a node: those of one API of Kubernetes, the device plugin
// API or DRA, and among them those that give the devices the same names. Never others beside them, because each would
// give the same device to a container.
//
//	node := owner.New("/var/lib/accelerator-device-plugin", control.DRA, log)
//	err := node.Take(ctx, naming)  // blocks while a daemon of the device plugin API, or one with another naming, owns the node
//	…                              // offers devices
//	node.Leave(ctx, deleteSlices)  // the last daemon of its API withdraws the devices
//
// # The locks
//
// Each API has a lock file in the state directory, owner-devicePlugin.lock or owner-dra.lock. Each daemon that owns
// the node has a shared lock (flock) on the file of its API until it ends. So several daemons of one API may own
// the node, as in an upgrade. A daemon gets the lock only if no daemon has a lock on the other file.
//
// Each owner also marks its [Naming] on the file ([privatedir.Mark]): a shared lock on one byte, at an offset which is the
// hash of the settings that decide the names of devices. A daemon gets the lock only if it is alone, or if the others
// have its mark and no other one. So a daemon of an older version, which has no mark, counts as one with another
// naming. The mark needs no file of its own and no space, because a byte can be locked that does not exist.
//
// The lock on owner.lock makes these steps one. It is held for some milliseconds.
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
// Pods may still have claims after the last driver has left. The file owner-dra.boot contains the id of the boot in which a
// driver owned the node last. In another boot no container can have a device of a claim, so a device plugin need not find
// out which are held ([Node.OtherMayHold]).
//
// If a file or the directory cannot be used, is on a network file system, or the file system hangs, the daemon waits, logs
// the error, and tries again. It offers nothing without the lock. Two things defeat the lock: a state directory that the two APIs do not share, and a lock
// file that an administrator removes while its daemon runs.
//
// # Other names while a daemon runs
//
// The settings of a daemon that owns the node may change, such as the mode of the node. [Node.Rename] changes its naming
// if it is the only owner. Until the former names are withdrawn ([Node.Renamed]) it has both marks, so no other daemon
// can own the node. If it is not the only owner, it goes on with its former names and tries again. Two daemons
// that run side by side for ever would never get the new names; in an upgrade one of them ends soon.
//
// # Order
//
// There is no queue. While daemons of one API own the node, others of this API with the same naming start at once, and
// all others wait until the last one has ended. An endless sequence of overlapping upgrades would delay them for ever: an
// administrator ends this by removing the daemons that shall not run.
//
// # What may block
//
// A [Node] owns its lock. One call at a time may use it: Take, then Rename and Renamed, then Leave. They access the disk.
// Take does so in a goroutine, one at a time, which it leaves behind if the file system still hangs when its context ends.
// Take blocks until the node is owned, Rename and Renamed for up to 1 s, and Leave for up to 7 s. If the file system hangs,
// they leave a goroutine behind, and the next calls fail at once until it has returned. Waiting and WaitsFor do not block,
// and are safe for concurrent use.
package owner
