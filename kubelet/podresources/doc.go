// Package podresources asks the kubelet which container holds which device: it calls List of the pod-resources API
// (k8s.io/kubelet/pkg/apis/podresources/v1) over its unix socket.
//
// It owns no state: every call opens a connection and closes it. A call blocks until the kubelet answers, [Timeout] has
// passed, or the caller's context is done. The kubelet rejects more than 100 calls per second, so callers query it when
// something has changed rather than in a loop.
package podresources
