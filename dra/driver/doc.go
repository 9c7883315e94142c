// Package driver serves the devices of a node through Dynamic Resource Allocation (DRA). It ties the
// inventory, the slices and the claims to the helper of Kubernetes (kubeletplugin), which registers with
// the kubelet and writes ResourceSlices.
//
//	inventory ─ snapshots ─► slices.Publisher ─► helper ─► API server
//	                                                           │ watch of the node's own slices
//	                                             ▲ again       ▼
//	                                             └─────── restore
//	kubelet ─ Prepare, Unprepare ─► helper ─► Claims
//	kubelet ◄─ health stream ─ WatchHealthStatus ◄─ snapshots
//
// # Slices at the start
//
// The first publication waits until the kubelet has registered the driver. 30 s after the end of a driver that was
// killed, the kubelet deletes its slices, but only if it had registered the driver. A device plugin relies on this.
//
// # Slices that other clients delete
//
// A kubelet deletes all slices of its node when it starts. The helper writes them again only after 30 s: it
// waits after each deletion, because its cache of the API server may be outdated. So the driver has its own
// watch. After a deletion it hands the slices to the helper once more, and repeats this at growing intervals
// until its watch shows them. An attempt has no effect before the helper has seen the deletion, and causes
// no request unless the helper finds a difference.
//
// # Slices at the end
//
// Run leaves the slices on the API server. The last driver of a node deletes them with [Withdraw] when it stops,
// because the device plugin may follow. So a driver that is restarted without another one beside it writes its slices
// anew. Meanwhile no pod is scheduled that no driver could prepare. Allocated claims keep their devices.
//
// # Goroutines and their state
//
// [Driver.Run] owns all goroutines and waits for them. Claims and the health stream are served in
// goroutines of the gRPC server, several at a time. The wanted slices and those on the API server are
// one immutable value, which the Publisher's goroutine and the watch replace. Handing slices to the helper
// blocks until the helper has filled its cache. That takes a second, or longer while the API server does not
// answer.
package driver
