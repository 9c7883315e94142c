// Package owner decides which daemons may advertise the devices of a node: the daemons of one Kubernetes API, either
// the device plugin API or DRA, and among them only those that give the devices the same names. Any other daemon must
// wait, because it could give the same device to a second container.
//
//	node := owner.New("/var/lib/accelerator-device-plugin", control.DRA, log)
//	err := node.Take(ctx, naming)  // blocks while a daemon of the device plugin API, or one with another naming, owns the node
//	…                              // offers devices
//	node.Leave(ctx, deleteSlices)  // the last daemon of its API withdraws the devices
//
// # The locks
//
// Each API has a lock file in the state directory, owner-devicePlugin.lock or owner-dra.lock. Each daemon that owns the
// node holds a shared lock (flock) on the file of its API until it ends. So several daemons of one API may own the
// node, as in an upgrade. A daemon gets the lock only if no daemon holds a lock on the other file.
//
// Each owner also marks its [Naming] on the file ([privatedir.Mark]). The mark is a shared lock on one byte, and the
// offset of the byte is the hash of the settings that decide the names of devices. A daemon gets the lock only if it is
// alone, or if the others have its mark and no other one. A daemon of an older version has no mark, so it counts as one
// with another naming. The mark needs no file of its own and no space, because even a byte that does not exist can be
// locked.
//
// The lock on owner.lock makes these steps atomic. It is held for some milliseconds.
//
// If a daemon is killed, the kernel releases its locks. So the kernel, not a record, knows whether an owner is alive.
//
// # The record
//
// ResourceSlices remain on the API server after a driver was killed. So the lock file of DRA is also a record: it is on
// the disk before the first driver owns the node, and the last driver removes it after it has withdrawn the devices. If
// no daemon holds a lock on the file, slices may remain. A device plugin that finds such a file owns the node, but
// waits until the kubelet has removed the slices, and then removes the file. It does so after a reboot as well. The
// content of the files is never read, so it cannot be wrong.
//
// A driver does not wait for the devices of a device plugin that was killed. The kubelet notices the end of the
// plugin's streams at once, and then has no healthy device of it. So the lock file of the device plugin is not a
// record. It stays on the disk, so that a device plugin that has run on the node before starts even if the disk is full
// or read-only.
//
// Pods may still have claims after the last driver has left. The file owner-dra.boot contains the id of the boot in
// which a driver last owned the node. After a reboot no container can have a device of a claim, so a device plugin need
// not find out which devices are held ([Node.OtherMayHold]).
//
// If a file or the directory cannot be used or is on a network file system, or if the file system hangs, the daemon
// waits, logs the error, and tries again. It advertises nothing without the lock. Two things defeat the lock: a state
// directory that the two APIs do not share, and an administrator who removes the lock file of a running daemon.
//
// # Other names while a daemon runs
//
// The settings of a daemon that owns the node may change, such as the mode of the node. [Node.Rename] changes its
// naming if it is the only owner. Until the old names are withdrawn ([Node.Renamed]) it has both marks, so no other
// daemon can own the node. If it is not the only owner, it keeps its old names and tries again. As long as two daemons
// run side by side, neither gets new names, but in an upgrade one of them ends soon.
//
// # Order
//
// There is no queue. While daemons of one API own the node, others of this API with the same naming start at once, and
// all others wait until the last one has ended. An endless sequence of overlapping upgrades would delay them forever.
// An administrator can end this by removing the daemons that should not run.
//
// # What may block
//
// A [Node] owns its lock. Only one call at a time may use it: Take, then Rename and Renamed, then Leave. They access
// the disk. Take does so in a goroutine. If the file system still hangs when the context ends, Take leaves this
// goroutine behind. Take blocks until the node is owned, Rename and Renamed for up to 1 s, and Leave for up to 7 s. If
// the file system hangs, they leave a goroutine behind, and the next calls fail at once until it has returned.
// [Node.Waiting] and [Node.WaitsFor] do not block, and are safe for concurrent use.
package owner
