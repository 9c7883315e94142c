// Package kubelet is that part of a kubelet which device plugins meet, put
// together from the packages of k8s.io/kubernetes: the device manager with its
// checkpoint, the topology manager that admits pods through it, and the
// pod-resources API. Nothing in them is changed or stood in for; what is made up is
// what surrounds them: pods are admitted, deleted and asked after by the test, and
// there is no API server, no runtime and no container.
//
// It is built against two versions of Kubernetes, because they trip plugins up in
// opposite ways: go.mod pins 1.37, kubernetes-1.36.mod (with the build tag
// kubernetes136) pins 1.36. What differs between their packages stands in
// manager_1.37.go and manager_1.36.go, one beside the other. gRPC is pinned to the
// version of each, so that it speaks as in that kubelet.
//
// A [Kubelet] owns the directory that it was started in; its methods may be called
// by one goroutine at a time, but for [Kubelet.Advertised], which anybody may call
// at any time. Start and Restart wait for nothing but the disk; Stop waits for
// every goroutine that listens. A [Daemon] is our binary, a process of its own.
package kubelet
