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
// # Slices that others delete
//
// A kubelet deletes all slices of its node when it starts. The helper writes them again after 30 s: it
// delays its work after each event, because its own view of the API server may be older than the event.
// The driver has a watch of its own. After a deletion it hands the slices over once more, and again at
// growing intervals until its watch shows them. An attempt before the helper has seen the deletion has
// no effect, and no attempt causes a request unless the helper finds a difference.
//
// # Goroutines and their state
//
// [Driver.Run] owns all goroutines and waits for them. Claims and the health stream are served in
// goroutines of the gRPC server, several at a time. The wanted slices and those on the API server are
// one immutable value, which the Publisher's goroutine and the watch replace. Handing slices over blocks
// until the helper has its first view of the API server, which takes a second or as long as the API
// server does not answer.
package driver
