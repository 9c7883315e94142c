// Package simnode creates simulated nodes, each of which consists of a sysfs tree and a device directory below a
// folder, laid out the way the kernel's drivers do it. Its cards can be plugged in, pulled and broken. A card has all
// files that determine its health, with good values. The Set functions change these files. A PCI function can instead
// have an IOMMU group and a driver such as vfio-pci, without any of the DFL driver's files.
//
// The package is for the demo and simulate commands, and for tests. A simulated node differs from a real kernel:
// inotify reports all changes on a disk, but hardly any in a real sysfs; there are no uevents; and reading a file can't
// fail with EBUSY or hang. The tests in test/kernel use a real kernel.
//
// A Node's directories never have the inode number of a directory that the Node has deleted, even though most file
// systems reuse such a number immediately. sysfs doesn't reuse numbers: on 64-bit machines, since Linux 5.5, its inode
// numbers have 64 bits and only count up (commit 40430452fd5d, "kernfs: use 64bit inos if ino_t is 64bit";
// __kernfs_new_node in fs/kernfs/dir.c). Older kernels have fewer bits and reuse numbers sooner. A Node's files may
// share numbers. Empty directories in the folder occupy the numbers of the last few thousand deleted directories.
//
// A [Node] owns its folder, which also contains the directories that occupy numbers. It isn't safe for concurrent use.
// A node opened with [Open] is also saved in the folder before and after each card is plugged in or pulled, so that
// several processes can take turns using it. The folder must belong to the user, so its files aren't checked. Only Open
// blocks, while another process has the node open. Steps happen in the same order as in the kernel: a card's attributes
// are created before its class link, and its device nodes are removed before its directories.
package simnode
