// Package cluster runs a Kubernetes cluster of one node on this machine: etcd, API server,
// controller manager, scheduler, containerd and kubelet, built from the Go modules of their projects.
//
// The cluster is isolated from the machine: it listens on the addresses of its own bridge, from the
// networks for benchmarks (RFC 2544), and its files are below [Root]. Only the paths that are
// constants of the kubelet are elsewhere: /var/lib/kubelet, cgroups, sysctls. [CheckHost] refuses a
// machine on which a kubelet runs or has run. [Cluster.Down] ends all processes and removes all files
// and interfaces. If the process was killed before, the next [Up] does that.
//
// There is no kube-proxy, and network policies are not enforced. The only service that is needed is
// that of the API server, which listens on the service's address itself.
//
// A [Cluster] must be used by one goroutine only.
package cluster
