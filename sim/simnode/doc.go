// Package simnode creates simulated nodes. A simulated node is a folder with a sysfs tree and a device directory that
// look as if the kernel's drivers had created them. Its cards can be plugged in, pulled and broken. A card has all the
// files that determine its health. At first they have good values; the Set functions change them. Instead of the DFL
// driver's files, a PCI function can have an IOMMU group and a driver such as vfio-pci.
//
// The demo and simulate commands and tests use this package. A simulated node differs from a real kernel: inotify
// reports all changes (it reports hardly any in a real sysfs), there are no uevents, and reading a file can't hang or
// fail with EBUSY. The tests in test/kernel use a real kernel.
//
// A Node's directories never have the inode number of a directory that the Node has deleted, even though most file
// systems reuse a deleted directory's number immediately. sysfs doesn't reuse numbers: on 64-bit machines, since Linux
// 5.5, its inode numbers have 64 bits and only count up (commit 40430452fd5d, "kernfs: use 64bit inos if ino_t is
// 64bit"; __kernfs_new_node in fs/kernfs/dir.c). In older kernels, the numbers have fewer bits and are reused sooner. A
// Node creates empty directories in its folder, to keep the numbers of the last few thousand deleted directories
// occupied. Unlike directories, files may reuse numbers.
//
// A [Node] owns its folder. It isn't safe for concurrent use. A node opened with [Open] is saved in the folder before
// and after each card is plugged in or pulled, so that several processes can take turns using it. The folder must
// belong to the user, so the files in it are trusted. Only Open blocks, while another process has the node open. Steps
// happen in the same order as in the kernel: a card's attributes are created before its class link, and its device
// nodes are removed before its directories.
package simnode
