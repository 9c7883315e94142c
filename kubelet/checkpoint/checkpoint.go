package checkpoint

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"google.golang.org/protobuf/proto"
	"k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

// File is the file's name in the kubelet's device plugin directory.
const File = "kubelet_internal_checkpoint"

// maxSize is the maximum size of the file, in bytes. An entry takes about 500 bytes. Parsing uses up to 25 times as
// much memory.
const maxSize = 4 << 20

// Record is the file's content.
type Record struct {
	Written time.Time // when the kubelet wrote the file; zero if there is none
	Entries []Entry
}

// Entry contains the devices that one container got from one resource. The container may have ended.
type Entry struct {
	PodUID    string
	Container string
	Resource  string
	IDs       []string                           // the devices' ids, sorted
	answer    *v1beta1.ContainerAllocateResponse // nil if it can't be parsed
}

// Holder returns a unique name for the container.
func (e Entry) Holder() string { return e.PodUID + "/" + e.Container }

// annotationPrefix is the key prefix of a device's annotation. The rest of the key is the device's id, with colons
// replaced by -, because a key can't contain colons.
const annotationPrefix = "nodes.accelerator.b-com.com/"

func annotationKey(id string) string { return annotationPrefix + strings.ReplaceAll(id, ":", "-") }

// Annotate adds a device's nodes to an Allocate response's annotations: their names below the device root, and their
// numbers. A device may have mounts but no nodes.
func Annotate(annotations map[string]string, id string, nodes []string) {
	annotations[annotationKey(id)] = strings.Join(nodes, ",")
}

// Ours reports whether one of this project's daemons gave the device to the container, under any resource name.
// Releases before 0.2.0 didn't write annotations and aren't recognized.
func (e Entry) Ours(id string) bool {
	_, found := e.answer.GetAnnotations()[annotationKey(id)]
	return found
}

var errNoNodes = errors.New("the kubelet's checkpoint does not name the device's nodes")

// Nodes returns the nodes that the container got for a device: their names below devRoot, which is the device root on
// the host, and their numbers (MAJOR:MINOR) if known. If there is no annotation, as in another plugin's response, it
// returns the names of all nodes in the response.
func (e Entry) Nodes(id, devRoot string) ([]string, error) {
	if e.answer == nil {
		return nil, errNoNodes
	}
	annotations := e.answer.GetAnnotations()
	if text, ok := annotations[annotationKey(id)]; ok {
		if text == "" {
			return nil, nil
		}
		return strings.Split(text, ","), nil
	}
	for key := range annotations {
		if strings.HasPrefix(key, annotationPrefix) {
			return nil, nil // another device's annotation, so this device had no node
		}
	}
	if len(e.answer.CdiDevices) > 0 {
		return nil, errNoNodes
	}
	var nodes []string
	for _, d := range e.answer.Devices {
		if name, err := filepath.Rel(devRoot, d.GetHostPath()); err == nil && filepath.IsLocal(name) {
			nodes = append(nodes, name)
		}
	}
	slices.Sort(nodes)
	return slices.Compact(nodes), nil
}

// Reader reads the file, and parses it only if it has changed since the last call. The zero Reader is ready to use.
type Reader struct {
	info os.FileInfo // the last file that was parsed
	last Record

	files int
}

// Files returns the number of different files read so far.
func (r *Reader) Files() int { return r.files }

// Read returns the content of the file in the kubelet's device plugin directory. The result is empty if there has never
// been a file. If the file has disappeared, the error wraps [os.ErrNotExist].
func (r *Reader) Read(kubeletDir string) (Record, error) {
	path := filepath.Join(kubeletDir, File)
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) // a pipe in its place must not block
	if errors.Is(err, os.ErrNotExist) && r.info == nil {
		return Record{}, nil
	}
	if err != nil {
		return Record{}, fmt.Errorf("kubelet's checkpoint: %w", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return Record{}, fmt.Errorf("kubelet's checkpoint: %w", err)
	}
	if !info.Mode().IsRegular() {
		return Record{}, fmt.Errorf("kubelet's checkpoint %s: found %v, want a regular file", path, info.Mode().Type())
	}
	if r.info != nil && os.SameFile(info, r.info) && info.ModTime().Equal(r.info.ModTime()) && info.Size() == r.info.Size() {
		return r.last, nil
	}
	text, err := io.ReadAll(io.LimitReader(f, maxSize+1))
	if err != nil {
		return Record{}, fmt.Errorf("kubelet's checkpoint: %w", err)
	}
	if len(text) > maxSize {
		return Record{}, fmt.Errorf("kubelet's checkpoint %s: found more than %d MiB: a pod has very many containers or devices", path, maxSize>>20)
	}
	record, err := parse(text)
	if err != nil {
		return Record{}, fmt.Errorf("kubelet's checkpoint %s: %w", path, err)
	}
	record.Written = info.ModTime()
	r.info, r.last, r.files = info, record, r.files+1
	return record, nil
}

// parse returns the file's content, without the time.
func parse(text []byte) (Record, error) {
	var found struct { // the kubelet's names
		Data *struct {
			PodDeviceEntries []struct {
				PodUID, ContainerName, ResourceName string
				DeviceIDs                           map[string][]string // by NUMA node
				AllocResp                           []byte              // a ContainerAllocateResponse
			}
		}
	}
	if err := json.Unmarshal(text, &found); err != nil {
		return Record{}, err
	}
	if found.Data == nil {
		return Record{}, errors.New("found no Data, want the format of Kubernetes 1.20 or newer")
	}
	var record Record
	for _, e := range found.Data.PodDeviceEntries {
		ids := slices.Concat(slices.Collect(maps.Values(e.DeviceIDs))...)
		slices.Sort(ids)
		answer := &v1beta1.ContainerAllocateResponse{}
		if proto.Unmarshal(e.AllocResp, answer) != nil {
			answer = nil
		}
		record.Entries = append(record.Entries, Entry{e.PodUID, e.ContainerName, e.ResourceName, slices.Compact(ids), answer})
	}
	return record, nil
}

// Pods returns the pod UIDs in the record, by device id.
func (r Record) Pods() map[string][]string {
	pods := map[string][]string{}
	for _, e := range r.Entries {
		for _, id := range e.IDs {
			if !slices.Contains(pods[id], e.PodUID) {
				pods[id] = append(pods[id], e.PodUID)
			}
		}
	}
	return pods
}
