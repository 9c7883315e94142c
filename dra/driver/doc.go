// Package driver serves a node's devices through Dynamic Resource Allocation (DRA). It connects the inventory, the
// slices and the claims to the library of Kubernetes (kubeletplugin). The library's Helper, called the helper below,
// registers with the kubelet and writes ResourceSlices.
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
// The first publication waits until the kubelet has registered the driver. If a driver is killed, the kubelet deletes
// its slices after 30 s, but only if it had registered the driver. A device plugin that waits for the node relies on
// this.
//
// # Slices that other clients delete
//
// A kubelet deletes all slices of its node when it starts. The helper writes them again only after 30 s: it waits after
// each deletion, because its cache of the API server may be outdated. So the driver has its own watch. After a deletion
// the driver hands the slices to the helper again, at growing intervals, until the watch shows them. An attempt has no
// effect until the helper has seen the deletion. It only causes a request if the helper finds a difference.
//
// # Slices at the end
//
// Run leaves the slices on the API server. The last driver of a node deletes them with [Withdraw] when it stops,
// because a device plugin may follow. So if a node's only driver is restarted, it rewrites its slices. In between, the
// scheduler cannot place a pod that no driver could prepare. Allocated claims keep their devices.
//
// # Goroutines and their state
//
// [Driver.Run] owns all goroutines and waits for them. The gRPC server's goroutines serve claims and the health stream,
// several at a time. The wanted slices and the slices on the API server are stored in one immutable value, which the
// Publisher's goroutine and the watch replace. Handing slices to the helper blocks until the helper has filled its
// cache. This takes a second, or longer while the API server does not answer.
package driver
