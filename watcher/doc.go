// Package watcher turns kernel events into hints. A hint says where something may have changed and when the event
// arrived. The package doesn't read devices and doesn't trust events: whoever receives a hint reads the card.
//
// # Sources
//
//   - uevents, from the kernel's netlink group. This is the primary source, and on a real sysfs the only one that
//     reports drivers being bound or unbound.
//   - inotify on the device node directory and on the subdirectories for relevant nodes, such as vfio. It reports a
//     node as soon as devtmpfs has added it, before a driver is bound. It is the only source if the netlink socket
//     can't be opened.
//   - inotify on the whole sysfs tree, but only if the tree is on an ordinary file system (a simulated node). A real
//     sysfs doesn't produce inotify events for entries that the kernel creates or removes, and is never watched.
//
// [New] opens all sources, so a caller that reads the cards after calling New doesn't miss any changes. If a source
// can't be opened or fails, the error is logged once at Warn and the source is reopened later. The other sources
// continue. Reopening the source causes a hint for everything.
//
// When events are lost, because a queue is full or a message can't be parsed, the source sends a hint for everything. A
// full netlink queue is emptied first. Each relevant event causes a hint immediately: this package neither merges nor
// delays hints. Package inventory merges bursts of hints (inventory/bursts.go).
//
// # Forged events
//
// The package accepts messages only from the kernel. A process with CAP_NET_ADMIN can multicast a uevent, but its
// message's source port isn't 0. A process with CAP_SYS_ADMIN can make the kernel send a uevent, but the message has
// that process's credentials. Both kinds are dropped and counted.
//
// The credentials are relative to this process's namespaces. In a child pid namespace, every process outside it has pid
// 0, so a root process on the host is taken for the kernel. In a child user namespace that doesn't map the host's uid 0
// (a pod with hostUsers: false and hostNetwork: true), the kernel has the overflow uid, and its uevents would be taken
// for forged ones. A network namespace owned by a child user namespace (a pod with hostUsers: false) doesn't get any
// uevents. In both of these user namespace cases, the source counts as lost.
//
// # Ownership and blocking
//
// [Watcher.Run] starts one goroutine per source and waits for them. Each goroutine owns its descriptors and state, so
// there are no locks. The goroutines call hint concurrently. hint must not block, because a source isn't read while it
// is calling hint. Events are queued only in the kernel.
//
// New and the handling of changes in a simulated tree walk directories, which may block for as long as the file system
// does.
package watcher
