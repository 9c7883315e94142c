// Package slices publishes a node's devices as ResourceSlices.
//
// [Of] and [Health] are pure: they translate devices of the inventory for the API server and for the kubelet.
// [Publisher] follows the snapshots of the inventory, and publishes their slices when they differ from the ones that it
// published last.
//
// The goroutine of [Publisher.Run] owns the state of a Publisher. It is blocked while [Config.Publish]
// blocks. [Publisher.Republish] and [Publisher.WithoutTaints] never block, and may be called by
// any goroutine.
package slices
