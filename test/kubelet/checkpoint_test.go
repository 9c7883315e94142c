package kubelet_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"b-com.com/accelerator-device-plugin/sim/simkubelet"
	"b-com.com/accelerator-device-plugin/test/kubelet"
)

// The device manager accepts the checkpoint that the stand-in for the kubelet writes, including its checksum. So tests
// that use the stand-in use the same file format as a kubelet.
func TestCheckpointOfStandIn(t *testing.T) {
	t.Parallel()
	dir, err := os.MkdirTemp("", "adp") // short, because a socket's path has at most 107 bytes
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	in := filepath.Join(dir, "kubelet") // the directory that kubelet.Start uses
	const resource = "simkubelet.example.com/accelerator"
	before, err := simkubelet.Start(t.Context(), in, simkubelet.Behaviour{})
	if err != nil {
		t.Fatal(err)
	}
	for _, ids := range [][]string{{"3b:00.0", "5e:00.0"}, {"86:00.0"}} {
		answer := &v1beta1.ContainerAllocateResponse{Annotations: map[string]string{"of": ids[0]}}
		if err := before.Allocated(resource, answer, ids...); err != nil {
			t.Fatal(err)
		}
	}
	before.Stop()
	text, err := os.ReadFile(filepath.Join(in, simkubelet.Checkpoint))
	if err != nil {
		t.Fatal(err)
	}
	var c struct {
		Data struct{ PodDeviceEntries []struct{ PodUID string } }
	}
	if err := json.Unmarshal(text, &c); err != nil || len(c.Data.PodDeviceEntries) != 2 {
		t.Fatalf("checkpoint: found %s, %v; want two entries", text, err)
	}

	k, err := kubelet.Start(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	defer k.Stop()
	var held [][]string
	for _, entry := range c.Data.PodDeviceEntries {
		pod := kubelet.NewPod("job", resource, 1)
		pod.UID = types.UID(entry.PodUID)
		held = append(held, k.Held(pod))
	}
	if diff := cmp.Diff([][]string{{"3b:00.0", "5e:00.0"}, {"86:00.0"}}, held); diff != "" {
		t.Errorf("held (-want +got):\n%s", diff)
	}
}
