// Package simkubelet is a small stand-in for the kubelet. It implements the device manager's side of the device plugin
// API, and the pod-resources API, using real gRPC on real Unix sockets, but without pods, nodes or a cluster. The demo,
// tests and benchmarks use it.
//
// It behaves like the device manager in Kubernetes 1.37 (pkg/kubelet/cm/devicemanager). [Start] deletes every socket in
// the directory and then creates kubelet.sock. Register connects to the plugin and calls GetDevicePluginOptions before
// it responds. The stand-in then calls ListAndWatch. It doesn't reopen streams that have ended. Allocate responses are
// stored in the [Checkpoint], which is written after each allocation and each received list, and which the next kubelet
// reads. A [Behaviour] makes the stand-in fail in the ways that real kubelets do.
//
// [PodResources] is a stand-in for the API on the kubelet's other socket, the pod-resources API. [PodResources.Hold]
// and [PodResources.Release] determine what its List returns, and a [PodBehaviour] makes it stall, fail or return wrong
// answers. An allocated device isn't listed as held until the test calls Hold. [PodResources.Join] connects a
// PodResources to a Kubelet. From then on, List ends released pods' allocations, unless the PodBehaviour says that the
// kubelet doesn't know its pods yet.
//
// [Kubelet] owns its socket, a connection to each registered plugin, and the received lists. PodResources owns its
// socket and the list of held devices. All methods are safe for concurrent use. The Await… methods block until the
// awaited state is reached, their context is done or the stand-in has stopped. [Kubelet.Stop], [Kubelet.Kill] and
// [PodResources.Stop] wait for all goroutines.
package simkubelet
