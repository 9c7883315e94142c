// Package podresources asks the kubelet which container holds which device: the
// List call of the pod-resources API (k8s.io/kubelet/pkg/apis/podresources/v1)
// over its unix socket.
//
// It owns no state: every call opens a connection and closes it. A call may
// block for as long as the kubelet pleases, up to [Timeout] or the caller's
// context. The kubelet answers 100 calls a second and refuses more, so callers
// ask when something changed, not in a loop.
package podresources
