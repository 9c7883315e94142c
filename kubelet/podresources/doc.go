// Package podresources asks the kubelet which container holds which device: it calls List of the
// pod-resources API (k8s.io/kubelet/pkg/apis/podresources/v1) over its unix socket.
//
// It owns no state: every call opens a connection and closes it. A call blocks until the kubelet
// answers, up to [Timeout] or the end of the caller's context. The kubelet refuses more than 100
// calls a second, so callers ask when something has changed, not in a loop.
package podresources
