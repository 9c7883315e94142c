// Package simnode makes a simulated node: a sysfs tree and a device directory
// below a folder, in the layout of the kernel's drivers, whose cards can be
// plugged, pulled and broken. A card has every file that its health is judged by,
// all good; the Set functions break them.
//
// It serves `demo` and the tests. It is no proof of what the kernel does: on a
// disk, inotify hears every change, on true sysfs hardly any, and no uevent is
// sent; a file cannot answer EBUSY, or not at all. What the kernel really does is
// tested against a kernel.
//
// A [Node] owns the folder that it was made in, where it also keeps spare parts of
// its slots, and is not safe for concurrent use. Steps are made in the order of
// the kernel: a card's attributes appear before its class link, its nodes go
// before its directories.
package simnode
