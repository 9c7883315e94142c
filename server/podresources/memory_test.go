package podresources_test

import (
	"slices"
	"strings"
	"testing"

	"b-com.com/accelerator-device-plugin/server/podresources"
)

const driver = "accelerator.b-com.com"

// ofClaims returns a Memory of the holders of claims.
func ofClaims(pod string) *podresources.Memory {
	return &podresources.Memory{Pod: pod, Keep: func(k podresources.Key) bool { return k.Resource == driver }}
}

// A kubelet that has just started does not list all pods. The holders of claims stay those of the last complete
// answer.
func TestMemory(t *testing.T) {
	claim, port := podresources.Key{Resource: driver, ID: "pci-0000-3b-00-0"}, podresources.Key{Resource: resource, ID: "5e:00.0"}
	pod := []podresources.Holder{{Namespace: "ns", Pod: "pod", Container: "main"}}
	const all, none = "all", "none"
	type answer struct {
		has   string // all, none, or the names of pods
		fresh bool
		want  bool // the claim has a holder
	}
	for _, tc := range []struct {
		name, pod string
		answers   []answer
	}{
		{"not a pod", "host", []answer{{all, false, true}, {none, true, true}, {none, true, true}, {none, false, false}}},
		{"not a pod, first answer of a new kubelet", "host", []answer{{none, true, false}, {all, true, true}}},
		{"its pod is listed", "me", []answer{{"me " + all, false, true}, {"me", true, false}}},
		{"its pod is not listed", "me", []answer{{"me " + all, false, true}, {none, false, true}, {"static", false, true}, {"me", false, false}, {none, false, false}}},
		{"its pod is listed at first, by a new kubelet", "me", []answer{{"me " + all, true, true}, {none, true, true}, {"me " + all, true, true}, {"me", false, false}}},
		{"long name", strings.Repeat("x", 63), []answer{{strings.Repeat("x", 70) + " " + all, false, true}, {none, false, true}, {strings.Repeat("x", 70), false, false}}},
		{"long name with a dash", strings.Repeat("x", 62), []answer{{strings.Repeat("x", 62) + "-y " + all, false, true}, {none, false, true}}},
		{"no host name", "", []answer{{all, false, true}, {none, false, false}}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			m := ofClaims(tc.pod)
			for i, a := range tc.answers {
				given := podresources.Answer{Pods: strings.Fields(a.has), Holders: map[podresources.Key][]podresources.Holder{}}
				if slices.Contains(given.Pods, all) {
					given.Holders[claim], given.Holders[port] = pod, pod
				}
				got := m.Complete(given, a.fresh)
				if held := len(got[claim]) > 0; held != a.want {
					t.Errorf("answer %d: claim has a holder: %v, want %v", i, held, a.want)
				}
				if held := len(got[port]) > 0; held != slices.Contains(given.Pods, all) {
					t.Errorf("answer %d: port has a holder: %v, want that of the answer", i, held)
				}
			}
		})
	}
}
