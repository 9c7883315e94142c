// Package simkubelet is a small stand-in for the kubelet: the device manager's side
// of the device plugin API, and the pod-resources API, over real gRPC on real
// unix sockets, without pods, nodes or a cluster. It is for the demo, tests and benchmarks.
//
// It behaves as the device manager of Kubernetes 1.37 does
// (pkg/kubelet/cm/devicemanager): [Start] deletes every socket in the directory,
// then creates kubelet.sock; Register connects to the plugin and calls
// GetDevicePluginOptions before it answers; ListAndWatch is called after that; a stream that has ended
// is not opened again. The answers of Allocate are kept in the [Checkpoint], which the next kubelet
// reads. It is written at each allocation and at each received list. A [Behaviour] makes the stand-in fail as real
// kubelets do.
//
// [PodResources] is a stand-in for the kubelet's other socket, the pod-resources API. [PodResources.Hold] and
// [PodResources.Release] set the answer of its List, and a [PodBehaviour] makes it stall, fail and return wrong
// answers. An allocated device is listed as held only after the test has called Hold. [PodResources.Join] connects it
// with a Kubelet: then List ends the allocations of released pods, unless the PodBehaviour says that the kubelet does
// not know its pods yet.
//
// [Kubelet] owns its socket, one connection to each registered plugin, and the received lists. PodResources owns its
// socket and the held devices. All methods are safe for concurrent use. The methods Await… block until the awaited
// state is reached, their context ends or the stand-in ends. [Kubelet.Stop], [Kubelet.Kill] and [PodResources.Stop]
// wait for every goroutine.
package simkubelet
