package simkubelet

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"
	"k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

// Checkpoint is the name of the file in the kubelet's directory that records each container's devices and Allocate
// response.
const Checkpoint = "kubelet_internal_checkpoint"

// checkpoint is the content of the [Checkpoint] file, as written by pkg/kubelet/cm/devicemanager/checkpoint in
// Kubernetes 1.37.
type checkpoint struct {
	Data     checkpointData
	Checksum uint64
}

type checkpointData struct {
	PodDeviceEntries  []podDevicesEntry
	RegisteredDevices map[string][]string // healthy devices, by resource
}

type podDevicesEntry struct {
	PodUID        string
	ContainerName string
	ResourceName  string
	DeviceIDs     map[int64][]string // by NUMA node; -1 for none
	AllocResp     []byte             // a marshaled ContainerAllocateResponse
}

// has reports whether the entry is for the resource and includes any of the given devices.
func (e podDevicesEntry) has(resource string, ids []string) bool {
	if e.ResourceName != resource {
		return false
	}
	for _, of := range e.DeviceIDs {
		if slices.ContainsFunc(of, func(id string) bool { return slices.Contains(ids, id) }) {
			return true
		}
	}
	return false
}

// checksum computes the same checksum as the kubelet: a hash of the data as printed by go-spew, which includes the
// names of the kubelet's types.
func (d checkpointData) checksum() uint64 {
	h := fnv.New32a()
	fmt.Fprint(h, "(checkpoint.checkpointData){PodDeviceEntries:([]checkpoint.PodDevicesEntry)[")
	for i, e := range d.PodDeviceEntries {
		if i > 0 {
			fmt.Fprint(h, " ")
		}
		fmt.Fprintf(h, "{PodUID:(string)%s ContainerName:(string)%s ResourceName:(string)%s DeviceIDs:(checkpoint.DevicesPerNUMA)%v AllocResp:([]uint8)%v}",
			e.PodUID, e.ContainerName, e.ResourceName, e.DeviceIDs, e.AllocResp)
	}
	fmt.Fprintf(h, "] RegisteredDevices:(map[string][]string)%v}", d.RegisteredDevices)
	return uint64(h.Sum32())
}

// Allocated records that the devices were allocated to a container with the given response, and writes the checkpoint.
// Earlier allocations of the devices end, because the kubelet allocates a device to only one container at a time.
// [Kubelet.Allocate] calls Allocated. Tests also call it to simulate an allocation by another daemon.
func (k *Kubelet) Allocated(resource string, answer *v1beta1.ContainerAllocateResponse, ids ...string) error {
	response, err := proto.Marshal(answer)
	if err != nil {
		return fmt.Errorf("checkpoint: %w", err)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.end(resource, ids)
	devices := map[int64][]string{}
	for _, id := range ids {
		d, ok := k.lists[resource].Device(id)
		if !ok {
			d.NUMANode = -1
		}
		devices[int64(d.NUMANode)] = append(devices[int64(d.NUMANode)], id)
	}
	k.entries = append(k.entries, podDevicesEntry{
		PodUID: rand.Text(), ContainerName: "main", ResourceName: resource, DeviceIDs: devices, AllocResp: response,
	})
	return k.writeCheckpoint()
}

// AllocatedByOldDaemon records that a daemon from an older release, whose responses didn't have annotations, allocated
// the devices to a container with the given device nodes.
func (k *Kubelet) AllocatedByOldDaemon(resource string, nodes []string, ids ...string) error {
	answer := &v1beta1.ContainerAllocateResponse{Envs: map[string]string{"ACCELERATOR_DEVICES": strings.Join(ids, ",")}}
	for _, name := range nodes {
		answer.Devices = append(answer.Devices, &v1beta1.DeviceSpec{HostPath: "/dev/" + name, ContainerPath: "/dev/" + name, Permissions: "rw"})
	}
	return k.Allocated(resource, answer, ids...)
}

// End ends all of the resource's allocations that include any of the given devices, for example an init container's
// allocation. As in the kubelet, these allocations stay in the checkpoint until the file is next written. For a pod
// that the pod-resources API lists, use [PodResources.Release].
func (k *Kubelet) End(resource string, ids ...string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.end(resource, ids)
}

// end removes allocations. The caller must hold mu.
func (k *Kubelet) end(resource string, ids []string) {
	k.entries = slices.DeleteFunc(k.entries, func(e podDevicesEntry) bool { return e.has(resource, ids) })
}

// podsOf returns the UIDs of the pods that have any of the given devices of the resource.
func (k *Kubelet) podsOf(resource string, ids ...string) (uids []string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, e := range k.entries {
		if e.has(resource, ids) {
			uids = append(uids, e.PodUID)
		}
	}
	return uids
}

// forget removes ended pods' allocations from memory but not from the checkpoint, as the device manager's
// UpdateAllocatedDevices does.
func (k *Kubelet) forget(ended map[string]bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.entries = slices.DeleteFunc(k.entries, func(e podDevicesEntry) bool { return ended[e.PodUID] })
}

// writeCheckpoint atomically replaces the checkpoint. The caller must hold mu.
func (k *Kubelet) writeCheckpoint() error {
	c := checkpoint{Data: checkpointData{PodDeviceEntries: k.entries, RegisteredDevices: map[string][]string{}}}
	for resource, list := range k.lists {
		healthy := []string{}
		for _, d := range list.Devices {
			if d.Healthy {
				healthy = append(healthy, d.ID)
			}
		}
		c.Data.RegisteredDevices[resource] = healthy
	}
	c.Checksum = c.Data.checksum()
	text, err := json.Marshal(c)
	if err != nil {
		return fmt.Errorf("checkpoint: %w", err)
	}
	temporary := filepath.Join(k.dir, "."+Checkpoint)
	if err := os.WriteFile(temporary, text, 0o600); err != nil {
		return fmt.Errorf("checkpoint: %w", err)
	}
	if err := os.Rename(temporary, filepath.Join(k.dir, Checkpoint)); err != nil {
		return fmt.Errorf("checkpoint: %w", err)
	}
	return nil
}

// readCheckpoint returns the allocations in an earlier kubelet's checkpoint. If the file is damaged, it returns none,
// as the kubelet does.
func readCheckpoint(dir string) ([]podDevicesEntry, error) {
	text, err := os.ReadFile(filepath.Join(dir, Checkpoint))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("checkpoint: %w", err)
	}
	var c checkpoint
	if json.Unmarshal(text, &c) != nil || c.Checksum != c.Data.checksum() {
		return nil, nil
	}
	return c.Data.PodDeviceEntries, nil
}
