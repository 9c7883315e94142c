// Package kubelet runs the parts of a kubelet that device plugins interact with, from the unmodified packages of
// k8s.io/kubernetes: the device manager with its checkpoint, the topology manager, which admits pods through it, and
// the pod-resources API. Everything around them is simulated: tests admit, delete and query pods, and there is no API
// server, no container runtime and no container.
//
// The package is built against two versions of Kubernetes, because plugins fail with them in opposite ways. go.mod pins
// 1.37, and kubernetes-1.36.mod (with the build tag kubernetes136) pins 1.36. The code that differs is in
// manager_1.37.go and manager_1.36.go. Each go.mod file pins the gRPC version of its kubelet, so that connections
// behave the same way.
//
// A [Kubelet] owns the directory that it was started in. Its methods must be called by only one goroutine at a time,
// except [Kubelet.Advertised], which is safe for concurrent use. Start and Restart block only for the disk. Stop blocks
// until all serving goroutines have ended. A [Daemon] is a process of the binary under test.
package kubelet
