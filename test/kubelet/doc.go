// Package kubelet runs the parts of a kubelet that device plugins interact with, using k8s.io/kubernetes' unmodified
// packages: the device manager and its checkpoint, the topology manager, which admits pods, and the pod-resources API.
// Everything around them is simulated: tests admit, delete and query pods, but there are no API server, container
// runtime or containers.
//
// The package can be built against two versions of Kubernetes, because they make plugins fail in opposite ways. go.mod
// pins 1.37, and kubernetes-1.36.mod (with the build tag kubernetes136) pins 1.36. The code that differs is in
// manager_1.37.go and manager_1.36.go. Each go.mod file pins its kubelet's gRPC version, so that connections behave the
// same way.
//
// A [Kubelet] owns the directory that it was started in. Only one goroutine at a time may call its methods, except for
// [Kubelet.Advertised], which is safe for concurrent use. Start and Restart block only on the disk. Stop blocks until
// all serving goroutines have ended. A [Daemon] is a running process of the binary that is being tested.
package kubelet
