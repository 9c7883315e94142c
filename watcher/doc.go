// Package watcher turns what the kernel says into hints: where something may
// have changed, and since when. It never looks at a device and believes nothing
// that it hears; whoever gets the hint reads the card again.
//
// # Sources
//
//   - uevents, from the kernel's netlink group. The primary source, and on a
//     true sysfs the only one that says when a driver binds.
//   - inotify on the directory of the device nodes. devtmpfs does tell; it
//     fires at add, before bind. The only source where netlink is refused.
//   - inotify on the whole sysfs tree, only where that tree lies on an ordinary
//     file system (simulated nodes), where it is complete. A true sysfs tells
//     inotify nothing of entries that the kernel makes or removes, and is never
//     watched.
//
// [New] opens all of them, so whoever reads the node after New misses nothing. A
// source that cannot be opened or breaks is said once at Warn, then retried
// quietly; the others go on. When it is back, the hint is for everything.
//
// News that was lost (a full socket buffer, a full inotify queue, a message that
// cannot be understood) is a hint for everything, given after the queue has been
// emptied. Nothing is merged or delayed here: every relevant event is a hint at
// once.
//
// # Who is believed
//
// Only the kernel. A process with CAP_NET_ADMIN can multicast a uevent, but then
// the source port is not 0; one with CAP_SYS_ADMIN can have the kernel send it,
// but then the credentials are its own. Both are dropped and counted. The ids
// are those of this process's namespaces: in a child pid namespace a process
// outside of it shows as pid 0 too, so that a root process of the host passes
// for the kernel; in a child user namespace that does not map uid 0 of the host
// the kernel itself shows as the overflow uid, and all its uevents are dropped
// (and said so). Nor do uevents reach a network namespace that a child user
// namespace owns (a pod with hostUsers: false): the source then opens and is
// silent.
//
// # Who owns what, what may block
//
// [Watcher.Run] starts one goroutine per source and awaits them. Each owns its
// descriptors and state alone; there is nothing to lock between them. They call
// hint concurrently, and it must not block: a source is not read meanwhile. Only
// kernel queues stand between an event and its hint.
//
// New and a change in a simulated tree walk directories, which may block as long
// as the file system pleases.
package watcher
