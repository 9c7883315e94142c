// Package simnode makes simulated nodes: a sysfs tree and a device directory below a folder, in the layout of the
// kernel's drivers. Its cards can be plugged, pulled and broken. A card has all files that determine its health, with
// good values. The Set functions change these files. A PCI function can instead have an IOMMU group and a driver such
// as vfio-pci, without any files of the DFL driver.
//
// The package is for the commands demo and simulate, and for tests. A simulated node differs from a kernel: inotify
// reports all changes on a disk, but hardly any in a real sysfs; there are no uevents; and a read of a file cannot fail
// with EBUSY, or hang. The tests in test/kernel use a real kernel.
//
// A directory of a Node never has the inode number of a directory that the Node has deleted, although most file systems
// reuse such a number at once. sysfs does not reuse numbers: on 64-bit machines, since Linux 5.5, its inode numbers
// have 64 bits and only count up (commit 40430452fd5d, "kernfs: use 64bit inos if ino_t is 64bit"; __kernfs_new_node in
// fs/kernfs/dir.c). Older kernels have fewer bits, and reuse a number sooner. Files of a Node may share numbers. Empty
// directories in the folder occupy the numbers of the last few thousand deleted directories.
//
// A [Node] owns its folder, which also contains the directories that occupy numbers. It is not safe for concurrent use.
// A node of [Open] is also saved in the folder, before and after each card that is plugged or pulled, so that several
// processes can use it in turn. The folder must belong to the user, so its files are not checked. Only Open blocks,
// while another process has the node open. Steps are in the order of the kernel: the attributes of a card are created
// before its class link, and its device nodes are removed before its directories.
package simnode
