package cluster_test

import (
	"testing"

	"b-com.com/accelerator-device-plugin/test/e2e/cluster"
)

// Only the cluster's mounts are unmounted.
func TestOurs(t *testing.T) {
	for path, want := range map[string]bool{
		"/var/lib/adp-e2e":                          true,
		"/var/lib/adp-e2e/run/io.containerd/rootfs": true,
		"/var/lib/adp-e2e-other":                    false,
		"/var/lib/kubelet/pods/uid/volumes/token":   true,
		"/var/lib/kubelets":                         false,
		"/run/netns/cni-0b6f":                       true,
		"/run/netns/mine":                           false,
		"/":                                         false,
		"/var/lib":                                  false,
		cluster.Unescape(`/var/lib/adp-e2e/with\040one`): true,
	} {
		if got := cluster.Ours(path); got != want {
			t.Errorf("%s: %t, want %t", path, got, want)
		}
	}
	if got := cluster.Unescape(`/a\040b\134040`); got != `/a b\040` {
		t.Errorf("%q", got)
	}
}
