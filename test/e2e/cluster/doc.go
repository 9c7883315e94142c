// Package cluster runs a one-node Kubernetes cluster on this machine: etcd, API server, controller manager, scheduler,
// containerd and kubelet, all built from their projects' Go modules.
//
// The cluster is isolated from the machine. It listens on the addresses of its own bridge, which are in the range
// reserved for benchmarks (RFC 2544), and keeps its files below [Root]. The exceptions are paths that are fixed in the
// kubelet: /var/lib/kubelet, cgroups and sysctls. [CheckHost] rejects a machine where a kubelet is or has been running.
// [Cluster.Down] ends all processes and removes all files and interfaces. If this process is killed before that, the
// next [Up] cleans up.
//
// There is no kube-proxy, and network policies aren't enforced. The only service that the tests need is the API
// server's, and the API server itself listens on that service's address.
//
// A [Cluster] must not be used by more than one goroutine.
package cluster
