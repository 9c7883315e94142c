// Package kubelet runs the parts of a kubelet that device plugins interact with, using the unmodified packages of
// k8s.io/kubernetes: the device manager with its checkpoint, the topology manager, through which pods are admitted, and
// the pod-resources API. Everything around them is simulated: tests admit, delete and query pods, but there are no API
// server, container runtime or containers.
//
// The package can be built against two versions of Kubernetes, because plugins fail with them in opposite ways. go.mod
// pins 1.37, and kubernetes-1.36.mod (with the build tag kubernetes136) pins 1.36. The code that differs is in
// manager_1.37.go and manager_1.36.go. Each go.mod file pins the same gRPC version as its kubelet, so that connections
// behave in the same way.
//
// A [Kubelet] owns the directory that it was started in. Its methods must be called by only one goroutine at a time,
// except [Kubelet.Advertised], which is safe for concurrent use. Start and Restart only block on the disk. Stop blocks
// until all serving goroutines have ended. A [Daemon] is a running process of the binary under test.
package kubelet
