// Package podresources asks the kubelet which containers hold which devices. It calls the List method of the
// pod-resources API (k8s.io/kubelet/pkg/apis/podresources/v1) over the kubelet's Unix socket.
//
// The package keeps no state: every call opens and closes its own connection. A call blocks until the kubelet answers,
// [Timeout] has passed, or the caller's context is done. The kubelet doesn't accept more than 100 calls per second, so
// call List when something has changed, not in a loop.
package podresources
