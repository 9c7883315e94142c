// Package watcher turns kernel events into hints. A hint says where something may have changed and when the event
// arrived. The package doesn't read devices and doesn't trust events; it is up to the receiver of a hint to read the
// card.
//
// # Sources
//
//   - uevents, from the kernel's netlink group. They are the primary source, and on a real sysfs the only one that
//     reports drivers being bound or unbound.
//   - inotify on the device node directory and on the subdirectories for relevant nodes, such as vfio. It reports a
//     node as soon as devtmpfs has added it, before a driver is bound. On a real sysfs, it is the only source if the
//     netlink socket can't be opened.
//   - inotify on the whole sysfs tree, but only if the tree is on an ordinary file system (a simulated node). A real
//     sysfs is never watched, because it doesn't produce inotify events for entries that the kernel creates or removes.
//
// [New] opens all sources, so a caller that reads the cards after calling New doesn't miss any changes. If a source
// can't be opened or fails, the error is logged once at Warn, and the source is reopened later, which causes a hint for
// everything. The other sources continue.
//
// When events are lost, because a queue is full or a message can't be parsed, the source sends a hint for everything. A
// full netlink queue is emptied first. Each relevant event immediately causes a hint. This package doesn't merge or
// delay hints; package inventory merges those that come in bursts (inventory/bursts.go).
//
// # Forged events
//
// The package only accepts messages from the kernel. A process with CAP_NET_ADMIN can multicast a uevent, but the
// message's source port won't be 0. A process with CAP_SYS_ADMIN can make the kernel send a uevent, but the message
// will carry that process's credentials. Both kinds are dropped and counted.
//
// Credentials are relative to this process's namespaces. In a child pid namespace, every process outside has pid 0, so
// a root process on the host is mistaken for the kernel. In a child user namespace that doesn't map the host's uid 0 (a
// pod with hostUsers: false and hostNetwork: true), the kernel has the overflow uid, and its uevents would be mistaken
// for forged ones. A network namespace owned by a child user namespace (a pod with hostUsers: false) doesn't get any
// uevents. In both of these user namespace cases, the source counts as lost.
//
// # Ownership and blocking
//
// [Watcher.Run] starts one goroutine per source and waits for them. Each goroutine owns its file descriptors and state,
// so there are no locks. They call hint concurrently. hint must not block: until it returns, the source isn't read, and
// events are queued only in the kernel.
//
// New walks directories, and so does Run when a simulated tree changes. Both may block for as long as the file system
// does.
package watcher
