// Package watcher turns news of the kernel into hints: where something may have changed, and
// since when. It reads no device and trusts no event: the receiver of a hint reads the card.
//
// # Sources
//
//   - uevents, from the kernel's netlink group. This is the primary source, and on a true
//     sysfs the only one with the binding of drivers.
//   - inotify on the directory of the device nodes. It has an event when devtmpfs adds a node,
//     before a driver is bound. It is the only source where netlink is refused.
//   - inotify on the whole sysfs tree, only if that tree is on an ordinary file system (a
//     simulated node). A true sysfs has no inotify events for entries that the kernel makes or
//     removes, and is never watched.
//
// [New] opens all sources, so a caller that reads the node after New misses nothing. A source
// that cannot be opened, or breaks, is logged once at Warn and opened again later; the others
// continue. When it is open again, it gives a hint for everything.
//
// News that was lost (a full socket buffer, a full inotify queue, a message that cannot be
// parsed) is a hint for everything, after the queue has been emptied. Every relevant event is a
// hint at once: this package merges and delays none.
//
// # Forged events
//
// Only messages of the kernel count. A process with CAP_NET_ADMIN can multicast a uevent, but
// the source port of its message is not 0. A process with CAP_SYS_ADMIN can have the kernel
// send one, but the message has the credentials of the process. Both are dropped and counted.
//
// The ids are those of this process's namespaces. In a child pid namespace every process
// outside of it has pid 0, so a root process of the host counts as the kernel. In a child user
// namespace that does not map uid 0 of the host, the kernel has the overflow uid, and all
// uevents are dropped (and logged as forged). A network namespace that a child user namespace
// owns (a pod with hostUsers: false) gets no uevents: the source opens and has no news.
//
// # Ownership and blocking
//
// [Watcher.Run] starts one goroutine per source and waits for them. Each owns its descriptors
// and state, so there are no locks. They call hint concurrently. hint must not block, because
// its source is not read meanwhile. Events wait only in queues of the kernel.
//
// New, and a change in a simulated tree, walk directories. That may block as long as the file
// system does.
package watcher
