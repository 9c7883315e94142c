package main

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"b-com.com/accelerator-device-plugin/internal/config"
	"b-com.com/accelerator-device-plugin/internal/draname"
	"b-com.com/accelerator-device-plugin/internal/sim/simkubelet"
)

// Only a complete answer of the kubelet shows that a claim was forgotten.
func TestNamed(t *testing.T) {
	host, err := os.Hostname()
	must(t, err)
	for _, tc := range []struct {
		name   string
		podUID string
		age    time.Duration // of the kubelet
		pods   []string      // beside job, which holds a claim and a resource
		want   string        // in the error; "": an answer
	}{
		{"with the pod of the driver", "uid", time.Hour, []string{host}, ""},
		{"without it", "uid", time.Hour, []string{"other"}, "does not list the pod of this driver (" + host + ")"},
		{"the driver is no pod", "", time.Hour, nil, ""},
		{"the kubelet has just started", "", 0, nil, "the kubelet has just started"},
		{"and has the pod already", "uid", 0, []string{host}, "the kubelet has just started"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir, err := os.MkdirTemp("", "dra") // short, for the path of a socket
			must(t, err)
			t.Cleanup(func() { os.RemoveAll(dir) })
			a := &api{cfg: config.Config{PodResourcesSocket: dir + "/pods.sock"}, settings: settings{podUID: tc.podUID}}
			if _, err := a.named(t.Context()); err == nil {
				t.Error("without a kubelet: found no error, want one")
			}
			pods, err := simkubelet.StartPodResources(t.Context(), a.cfg.PodResourcesSocket)
			must(t, err)
			defer pods.Stop()
			started := time.Now().Add(-tc.age)
			must(t, os.Chtimes(a.cfg.PodResourcesSocket, started, started))
			pods.Hold("default", "job", "main", "b-com.com/accelerator", "5e:00.0")
			pods.HoldClaim("default", "job", "main", "one", draname.Driver, device)
			pods.HoldClaim("default", "job", "main", "gpu", "gpu.example.com", "gpu-0")
			for _, pod := range tc.pods {
				pods.Hold("kube-system", pod, "main", "example.com/other", "0")
			}
			got, err := a.named(t.Context())
			if tc.want != "" {
				if err == nil || !strings.Contains(err.Error(), tc.want) {
					t.Errorf("error %v, want %s", err, tc.want)
				}
				return
			}
			must(t, err)
			if diff := cmp.Diff(map[string]bool{device: true}, got); diff != "" {
				t.Errorf("named (-want +got):\n%s", diff)
			}
		})
	}
	long := strings.Repeat("x", 62)
	if !isPod(long+"-y", long) || isPod(long+"y", long) || isPod("a", "") {
		t.Error("isPod: found another result, want the rule of the kubelet for long names")
	}
}
