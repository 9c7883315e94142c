// Package driver serves a node's devices through Dynamic Resource Allocation (DRA). It connects the inventory, the
// slices and the claims to the Kubernetes library kubeletplugin, whose Helper (called the helper below) registers with
// the kubelet and writes ResourceSlices.
//
//	inventory ─ snapshots ─► slices.Publisher ─► helper ─► API server
//	                                                           │ watch of the node's own slices
//	                                             ▲ again       ▼
//	                                             └─────── restore
//	kubelet ─ Prepare, Unprepare ─► helper ─► Claims
//	kubelet ◄─ health stream ─ WatchHealthStatus ◄─ snapshots
//
// # Slices at startup
//
// The driver doesn't publish anything until the kubelet has registered it. If a driver is killed, the kubelet deletes
// its slices after 30 s, but only if the driver was registered. A device plugin that is waiting for the node relies on
// this.
//
// # Slices that other clients delete
//
// When a kubelet starts, it deletes all of its node's slices. The helper would not rewrite them for 30 s: it waits
// after each deletion, because its cache may be outdated. So the driver has its own watch. After a deletion, it passes
// the slices to the helper again and again, at growing intervals, until they show up in the watch. An attempt has no
// effect until the helper has seen the deletion, and causes a request only if the helper finds a difference.
//
// # Slices at shutdown
//
// Run leaves the slices on the API server. When the last driver on a node stops, it deletes them with [Withdraw],
// because a device plugin may take over. As a result, when a node's only driver restarts, it has to rewrite its slices.
// Until it does, the scheduler doesn't place any pods that no driver could prepare. Allocated claims keep their
// devices.
//
// # Goroutines and their state
//
// [Driver.Run] starts all goroutines and waits for them. The gRPC server's goroutines serve claims and health streams
// concurrently. The desired slices and the slices on the API server are stored in one immutable value, which the
// Publisher's goroutine and the watch replace. Passing slices to the helper blocks until the helper has filled its
// cache. This takes a second, or longer if the API server doesn't respond.
package driver
