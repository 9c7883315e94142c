// Package simkubelet is a small stand-in for the kubelet: the device manager's side of the device plugin API, and the
// pod-resources API, over real gRPC on real Unix sockets, without pods, nodes or a cluster. It is for the demo, tests
// and benchmarks.
//
// It behaves the same way as the device manager in Kubernetes 1.37 (pkg/kubelet/cm/devicemanager). [Start] deletes
// every socket in the directory and then creates kubelet.sock. Register connects to the plugin and calls
// GetDevicePluginOptions before it answers. ListAndWatch is called after that, and a stream that has ended isn't
// reopened. Allocate responses are kept in the [Checkpoint], which the next kubelet reads. It is written after each
// allocation and each received list. A [Behaviour] makes the stand-in fail the way real kubelets do.
//
// [PodResources] is a stand-in for the kubelet's other socket, the pod-resources API. [PodResources.Hold] and
// [PodResources.Release] set what its List returns, and a [PodBehaviour] makes it stall, fail or return wrong answers.
// An allocated device is listed as held only after the test has called Hold. [PodResources.Join] connects it to a
// Kubelet. After that, List ends the allocations of released pods, unless the PodBehaviour says that the kubelet
// doesn't know its pods yet.
//
// [Kubelet] owns its socket, one connection to each registered plugin, and the received lists. PodResources owns its
// socket and the held devices. All methods are safe for concurrent use. The Await… methods block until the awaited
// state is reached, their context is done or the stand-in has stopped. [Kubelet.Stop], [Kubelet.Kill] and
// [PodResources.Stop] wait for every goroutine.
package simkubelet
