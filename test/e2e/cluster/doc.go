// Package cluster runs a one-node Kubernetes cluster on this machine: etcd, API server, controller manager, scheduler,
// containerd and kubelet, built from the Go modules of their projects.
//
// The cluster is isolated from the machine. It listens on the addresses of its own bridge, which belong to the networks
// for benchmarks (RFC 2544), and its files are below [Root]. Only paths that are constants of the kubelet are
// elsewhere: /var/lib/kubelet, cgroups, sysctls. [CheckHost] rejects a machine where a kubelet is running or has run.
// [Cluster.Down] ends all processes and removes all files and interfaces. If the process is killed before that, the
// next [Up] does it.
//
// There is no kube-proxy, and network policies are not enforced. The only service that is needed is the service of the
// API server, and the API server listens on its address itself.
//
// A [Cluster] must be used by one goroutine only.
package cluster
