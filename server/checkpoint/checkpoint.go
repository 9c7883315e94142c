package checkpoint

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"
	"k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"b-com.com/accelerator-device-plugin/server/podresources"
)

// File is the name of the file in the directory of the kubelet's device plugins.
const File = "kubelet_internal_checkpoint"

// maxSize is the maximum size of the file, in bytes. An entry has about 500.
const maxSize = 16 << 20

// Given has the nodes that containers got with one device.
type Given struct {
	Nodes []string // names and numbers (MAJOR:MINOR), sorted
	Known bool     // Nodes is complete
}

// Record has the nodes that containers got, by device.
type Record map[podresources.Key]Given

var (
	errNotRecorded = errors.New("the kubelet's checkpoint has no entry of the device")
	errNoNodes     = errors.New("the kubelet's checkpoint does not name the device's nodes")
)

// Nodes returns the nodes that were given with a device, or an error if they are not known.
func (r Record) Nodes(device podresources.Key) ([]string, error) {
	given, found := r[device]
	switch {
	case !found:
		return nil, errNotRecorded
	case !given.Known:
		return given.Nodes, errNoNodes
	}
	return given.Nodes, nil
}

// EnvDevices is the variable with the ids of a container's devices, separated by commas, in the
// order of their nodes in the answer.
const EnvDevices = "ACCELERATOR_DEVICES"

// annotationPrefix is the prefix of the key of a device's annotation. The rest is its id, with - in
// place of the colons, which a key may not have.
const annotationPrefix = "nodes.accelerator.b-com.com/"

func annotationKey(id string) string { return annotationPrefix + strings.ReplaceAll(id, ":", "-") }

// Annotate adds the nodes of a device to the annotations of an answer of Allocate: their
// names below the device root, and their numbers. A device may have mounts and no nodes.
func Annotate(annotations map[string]string, id string, nodes []string) {
	annotations[annotationKey(id)] = strings.Join(nodes, ",")
}

// file has the fields of the checkpoint that are read. The names are the kubelet's.
type file struct {
	Data *struct {
		PodDeviceEntries []entry
	}
}

// entry is one container's devices of one resource.
type entry struct {
	PodUID       string
	ResourceName string
	DeviceIDs    map[string][]string // by NUMA node
	AllocResp    []byte              // a ContainerAllocateResponse
}

// Read returns the record in the kubelet's directory of device plugins. It is empty if there is no
// file.
func Read(kubeletDir string) (Record, error) {
	text, err := read(kubeletDir)
	if text == nil {
		return Record{}, err
	}
	record, err := parse(text)
	if err != nil {
		return nil, fmt.Errorf("kubelet's checkpoint %s: %w", filepath.Join(kubeletDir, File), err)
	}
	return record, nil
}

// Pods returns the UIDs of the pods in the record, by the ids of their devices. The kubelet removes a
// pod that has ended at the next allocation.
func Pods(kubeletDir string) (map[string][]string, error) {
	text, err := read(kubeletDir)
	if text == nil {
		return nil, err
	}
	entries, err := parseEntries(text)
	if err != nil {
		return nil, fmt.Errorf("kubelet's checkpoint %s: %w", filepath.Join(kubeletDir, File), err)
	}
	pods := map[string][]string{}
	for _, e := range entries {
		for _, ids := range e.DeviceIDs {
			for _, id := range ids {
				if !slices.Contains(pods[id], e.PodUID) {
					pods[id] = append(pods[id], e.PodUID)
				}
			}
		}
	}
	return pods, nil
}

// read returns the content of the checkpoint, or nil if there is none.
func read(kubeletDir string) ([]byte, error) {
	path := filepath.Join(kubeletDir, File)
	f, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("kubelet's checkpoint: %w", err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxSize+1))
	if err != nil {
		return nil, fmt.Errorf("kubelet's checkpoint: %w", err)
	}
	if len(text) > maxSize {
		return nil, fmt.Errorf("kubelet's checkpoint %s: found more than the limit of %d bytes", path, maxSize)
	}
	return text, nil
}

// parse returns the record in the content of a checkpoint.
func parse(text []byte) (Record, error) {
	entries, err := parseEntries(text)
	if err != nil {
		return nil, err
	}
	record := Record{}
	for _, e := range entries {
		var answer v1beta1.ContainerAllocateResponse
		// The nodes of an answer that cannot be parsed are not known.
		readable := proto.Unmarshal(e.AllocResp, &answer) == nil
		for _, ids := range e.DeviceIDs {
			for _, id := range ids {
				key := podresources.Key{Resource: e.ResourceName, ID: id}
				nodes, known := given(&answer, id)
				if old, twice := record[key]; twice { // an init container of the pod had the device before
					nodes, known = append(nodes, old.Nodes...), known && old.Known
				}
				slices.Sort(nodes)
				record[key] = Given{slices.Compact(nodes), known && readable}
			}
		}
	}
	return record, nil
}

func parseEntries(text []byte) ([]entry, error) {
	var found file
	if err := json.Unmarshal(text, &found); err != nil {
		return nil, err
	}
	if found.Data == nil {
		return nil, errors.New("found no Data, want the format of Kubernetes 1.20 or newer")
	}
	return found.Data.PodDeviceEntries, nil
}

// given returns the nodes that an answer gave with a device, and reports whether they are
// known. Each device with nodes or mounts has an annotation with its nodes, without shared nodes. Earlier releases
// wrote no annotations. Then a single device has all nodes of the answer, and of several devices each
// has one node, in the same order. With any other number of nodes, or
// with CDI devices, the nodes are not known: if each device had the nodes of all, the devices of
// one container would conflict with each other.
func given(answer *v1beta1.ContainerAllocateResponse, id string) (nodes []string, known bool) {
	if text, ok := answer.Annotations[annotationKey(id)]; ok {
		if text == "" {
			return nil, true
		}
		return strings.Split(text, ","), true
	}
	for key := range answer.Annotations {
		if strings.HasPrefix(key, annotationPrefix) {
			return nil, true // of another device: this one had no node
		}
	}
	if len(answer.CdiDevices) > 0 {
		return nil, false
	}
	ids := strings.Split(answer.Envs[EnvDevices], ",")
	if i := slices.Index(ids, id); len(ids) > 1 && len(answer.Devices) > 0 {
		if i < 0 || len(answer.Devices) != len(ids) {
			return nil, false
		}
		return []string{filepath.Base(answer.Devices[i].GetHostPath())}, true
	}
	for _, d := range answer.Devices {
		nodes = append(nodes, filepath.Base(d.GetHostPath()))
	}
	return nodes, true
}
