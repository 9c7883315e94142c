// Package cluster is a Kubernetes node with a control plane of its own on this
// machine: etcd, API server, controller manager, scheduler, containerd and kubelet,
// as their projects' Go modules have them.
//
// It keeps to itself: it listens on the addresses of a bridge of its own, from the
// networks for benchmarks (RFC 2544), and keeps what it can below [Root]. What the
// kubelet has in its code is outside of that: /var/lib/kubelet, cgroups, sysctls.
// [Up] refuses where a kubelet lives or has lived. [Cluster.Down] ends what was
// started and takes away what was made; so does the next Up, where the process was
// killed before it could.
//
// There is no kube-proxy, and no network policy is enforced. The one service that is
// needed, the API server's, is at its address because the API server listens on it.
//
// A [Cluster] belongs to one goroutine.
package cluster
