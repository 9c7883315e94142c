// Package slices publishes a node's devices as ResourceSlices.
//
// [Of] and [Health] are pure functions that translate the inventory's devices for the API server and for the kubelet.
// [Publisher] follows the inventory's snapshots, turns each one into slices, and publishes them if they differ from
// those it published last.
//
// [Publisher.Run]'s goroutine owns the Publisher's state. It is blocked while [Config.Publish] blocks.
// [Publisher.Republish] and [Publisher.WithoutTaints] never block, and are safe for concurrent use.
package slices
