package simkubelet_test

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	"k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"b-com.com/accelerator-device-plugin/sim/simkubelet"
)

// entry is an entry of a checkpoint, without the uid of its pod.
type entry struct {
	ContainerName, ResourceName string
	DeviceIDs                   map[int64][]string
	AllocResp                   []byte
}

// checkpoint reads the checkpoint in a directory. It returns nil if there is none.
func checkpoint(t *testing.T, dir string) (entries []entry, registered map[string][]string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, simkubelet.Checkpoint))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		t.Fatal(err)
	}
	var c struct {
		Data struct {
			PodDeviceEntries  []entry
			RegisteredDevices map[string][]string
		}
	}
	if err := json.Unmarshal(text, &c); err != nil {
		t.Fatal(err)
	}
	return c.Data.PodDeviceEntries, c.Data.RegisteredDevices
}

func allocated(t *testing.T, k *simkubelet.Kubelet, resource string, answer *v1beta1.ContainerAllocateResponse, ids ...string) {
	t.Helper()
	if err := k.Allocated(resource, answer, ids...); err != nil {
		t.Fatal(err)
	}
}

// Allocate writes its answer to the checkpoint, and the devices by their NUMA nodes.
func TestCheckpointKeepsAnswers(t *testing.T) {
	dir := directory(t)
	k := start(t, dir, simkubelet.Behaviour{})
	p := serve(t, dir, "p.sock")
	if err := register(t, dir, good("p.sock")); err != nil {
		t.Fatal(err)
	}
	p.lists <- &v1beta1.ListAndWatchResponse{Devices: []*v1beta1.Device{
		{ID: "a", Health: "Healthy", Topology: &v1beta1.TopologyInfo{Nodes: []*v1beta1.NUMANode{{ID: 1}}}},
		{ID: "b", Health: "Healthy"}, {ID: "c", Health: "Unhealthy"},
	}}
	if _, err := k.AwaitList(t.Context(), resource, func(simkubelet.List) bool { return true }); err != nil {
		t.Fatal(err)
	}
	if entries, _ := checkpoint(t, dir); entries != nil {
		t.Errorf("entries before the first allocation: %v, want none", entries)
	}
	answer, err := k.Allocate(t.Context(), resource, "a", "b")
	if err != nil {
		t.Fatal(err)
	}
	entries, registered := checkpoint(t, dir)
	if len(entries) != 1 {
		t.Fatalf("entries: %v, want one", entries)
	}
	var kept v1beta1.ContainerAllocateResponse
	if err := proto.Unmarshal(entries[0].AllocResp, &kept); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(answer, &kept, protocmp.Transform()); diff != "" {
		t.Errorf("answer (-want +got):\n%s", diff)
	}
	entries[0].AllocResp = nil
	if diff := cmp.Diff([]entry{{"main", resource, map[int64][]string{1: {"a"}, -1: {"b"}}, nil}}, entries); diff != "" {
		t.Errorf("entries (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string][]string{resource: {"a", "b"}}, registered); diff != "" {
		t.Errorf("registered (-want +got):\n%s", diff)
	}
}

// held lists the devices of each entry of the checkpoint in a directory.
func held(t *testing.T, dir string) []string {
	t.Helper()
	var all []string
	entries, _ := checkpoint(t, dir)
	for _, e := range entries {
		for _, ids := range e.DeviceIDs {
			all = append(all, ids...)
		}
	}
	return all
}

// An allocation that has ended is removed from the file at the next allocation. The next kubelet reads
// the remaining allocations.
func TestCheckpointEntriesEnd(t *testing.T) {
	dir := directory(t)
	k := start(t, dir, simkubelet.Behaviour{})
	for _, id := range []string{"a", "b", "c"} {
		allocated(t, k, resource, &v1beta1.ContainerAllocateResponse{}, id)
	}
	allocated(t, k, resource, &v1beta1.ContainerAllocateResponse{}, "a") // to another container
	k.End(resource, "b")
	k.End("other", "c")
	if diff := cmp.Diff([]string{"b", "c", "a"}, held(t, dir)); diff != "" {
		t.Errorf("before the next allocation (-want +got):\n%s", diff)
	}
	allocated(t, k, resource, &v1beta1.ContainerAllocateResponse{}, "d")
	want := []string{"c", "a", "d"}
	if diff := cmp.Diff(want, held(t, dir)); diff != "" {
		t.Errorf("after it (-want +got):\n%s", diff)
	}
	k.Stop()
	k = start(t, dir, simkubelet.Behaviour{})
	allocated(t, k, resource, &v1beta1.ContainerAllocateResponse{}, "e")
	if diff := cmp.Diff(append(want, "e"), held(t, dir)); diff != "" {
		t.Errorf("the next kubelet (-want +got):\n%s", diff)
	}
}

// A kubelet ignores a damaged checkpoint.
func TestCheckpointIsDamaged(t *testing.T) {
	for name, text := range map[string]string{
		"no JSON":        `{"Data":{"PodDeviceEntries":[`,
		"wrong checksum": `{"Data":{"PodDeviceEntries":[{"PodUID":"u","ContainerName":"main","ResourceName":"r","DeviceIDs":{"-1":["x"]},"AllocResp":""}],"RegisteredDevices":{}},"Checksum":1}`,
	} {
		t.Run(name, func(t *testing.T) {
			dir := directory(t)
			if err := os.WriteFile(filepath.Join(dir, simkubelet.Checkpoint), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			k := start(t, dir, simkubelet.Behaviour{})
			allocated(t, k, resource, &v1beta1.ContainerAllocateResponse{}, "a")
			if diff := cmp.Diff([]string{"a"}, held(t, dir)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// An allocation fails if the checkpoint cannot be written, as in the kubelet.
func TestCheckpointCannotBeWritten(t *testing.T) {
	dir := directory(t)
	k := start(t, dir, simkubelet.Behaviour{})
	if err := os.Mkdir(filepath.Join(dir, simkubelet.Checkpoint), 0o750); err != nil {
		t.Fatal(err)
	}
	if err := k.Allocated(resource, &v1beta1.ContainerAllocateResponse{}, "a"); err == nil {
		t.Error("no error, although the checkpoint cannot be written")
	}
}
