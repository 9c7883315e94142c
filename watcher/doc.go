// Package watcher turns events of the kernel into hints. A hint names the place where something may have changed, and
// carries the time of the event. The package reads no device and trusts no event: the receiver of a hint reads the
// card.
//
// # Sources
//
//   - uevents, from the kernel's netlink group. This is the primary source, and on a true
//     sysfs the only source of events about the binding of drivers.
//   - inotify on the directory of the device nodes, and on the directories in it that contain relevant nodes, such as
//     vfio. It reports when devtmpfs has added a node, which is before a driver is bound. It is the only source if the
//     netlink socket cannot be opened.
//   - inotify on the whole sysfs tree, only if that tree is on an ordinary file system (a
//     simulated node). A true sysfs has no inotify events for entries that the kernel makes or
//     removes, and is never watched.
//
// [New] opens all sources, so a caller that reads the cards after New misses no change. A source that cannot be opened,
// or fails, is logged once at Warn and opened again later; the others continue. As soon as it is open again, a hint for
// everything follows.
//
// When events are lost (a full socket buffer, a full inotify queue, a message that cannot be parsed), the queue is
// emptied, and a hint for everything follows. Each relevant event causes a hint at once: this package neither merges
// nor delays hints. Package inventory merges the hints of a burst (inventory/bursts.go).
//
// # Forged events
//
// The package uses only messages of the kernel. A process with CAP_NET_ADMIN can multicast a
// uevent, but the source port of its message is not 0. A process with CAP_SYS_ADMIN can make the
// kernel send a uevent, but the message has the credentials of the process. Both are dropped and
// counted.
//
// The credentials are those in this process's namespaces. In a child pid namespace every process
// outside of it has pid 0, so a root process of the host counts as the kernel. In a child user
// namespace that does not map uid 0 of the host, the kernel has the overflow uid, and its uevents
// would count as forged (a pod with hostUsers: false and hostNetwork: true). A network namespace
// that a child user namespace owns (a pod with hostUsers: false) gets no uevents. In both, the
// source counts as lost.
//
// # Ownership and blocking
//
// [Watcher.Run] starts one goroutine per source and waits for them. Each owns its descriptors
// and state, so there are no locks. They call hint concurrently. hint must not block, because a
// source is not read while hint runs. Events wait only in queues of the kernel.
//
// New, and a change in a simulated tree, walk directories. That may block as long as the file
// system does.
package watcher
