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

// File is the name of the checkpoint in the kubelet's device plugin directory.
const File = "kubelet_internal_checkpoint"

// maxSize is the maximum size of the checkpoint, in bytes. It is limited because parsing a file takes up to 25 times
// its size in memory. An entry is about 500 bytes long.
const maxSize = 4 << 20

// Record is the content of the checkpoint.
type Record struct {
	Written time.Time // when the kubelet wrote the checkpoint; zero if there isn't one
	Entries []Entry
}

// Entry lists the devices of one resource that were allocated to one container. The container may have exited since
// then.
type Entry struct {
	PodUID    string
	Container string
	Resource  string
	IDs       []string                           // device ids, sorted
	answer    *v1beta1.ContainerAllocateResponse // the Allocate response; nil if it can't be parsed
}

// Holder returns a unique name for the container.
func (e Entry) Holder() string { return e.PodUID + "/" + e.Container }

// annotationPrefix is the prefix of device annotation keys. It is followed by the device's id, with each colon replaced
// by a dash, because annotation keys can't contain colons.
const annotationPrefix = "nodes.accelerator.b-com.com/"

func annotationKey(id string) string { return annotationPrefix + strings.ReplaceAll(id, ":", "-") }

// Annotate adds an annotation that lists a device's nodes to an Allocate response's annotations. nodes contains the
// names (relative to the device root) and numbers of the device nodes. It is empty if the device consists only of
// mounts.
func Annotate(annotations map[string]string, id string, nodes []string) {
	annotations[annotationKey(id)] = strings.Join(nodes, ",")
}

// Ours reports whether one of this project's daemons allocated the device to the container, under any resource name. It
// doesn't recognize devices allocated by releases before 0.2.0, which didn't write annotations.
func (e Entry) Ours(id string) bool {
	_, found := e.answer.GetAnnotations()[annotationKey(id)]
	return found
}

// AnotherPlugins reports whether another project's plugin allocated the devices. Unlike this project's daemons and the
// original plugin, such a plugin doesn't list the ids in an environment variable of its Allocate response.
// AnotherPlugins returns false if the response can't be parsed.
func (e Entry) AnotherPlugins() bool { return e.answer != nil && e.answer.Envs[envDevices] == "" }

const envDevices = "ACCELERATOR_DEVICES"

var errNoNodes = errors.New("the kubelet's checkpoint does not name the device's nodes")

// Nodes returns the device nodes that the container got for a device: their names below devRoot (the device root on the
// host) and, if known, their numbers (MAJOR:MINOR). If the Allocate response doesn't have any of our annotations, for
// example because it is from another plugin, Nodes returns the names of all device nodes in the response. It returns an
// error if the container got its device nodes in some other way.
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
			return nil, nil // other devices have annotations but this one doesn't, so it had no nodes
		}
	}
	var nodes []string
	for _, d := range e.answer.Devices {
		if name, err := filepath.Rel(devRoot, d.GetHostPath()); err == nil && filepath.IsLocal(name) {
			nodes = append(nodes, name)
		}
	}
	// A response that lists device nodes may also name a CDI device: Intel's plugin returns both, but the CDI device
	// only adds a hook.
	if len(nodes) == 0 && (e.usesCDI() || e.mounted(id)) {
		return nil, errNoNodes
	}
	slices.Sort(nodes)
	return slices.Compact(nodes), nil
}

// usesCDI reports whether the response names CDI devices, either in the CdiDevices field or in annotations, where
// sriov-network-device-plugin puts them.
func (e Entry) usesCDI() bool {
	for key := range e.answer.GetAnnotations() {
		if strings.HasPrefix(key, "cdi.k8s.io/") {
			return true
		}
	}
	return len(e.answer.CdiDevices) > 0
}

// mounted reports whether the response is from the original k8s-accelerator-devplugin for Intel's cards, which passes
// only ids to the container, so that pods have to mount the device nodes themselves. It returns false for pool units,
// whose ids are numbers, because they have no device nodes.
func (e Entry) mounted(id string) bool {
	return e.answer.Envs[envDevices] != "" && strings.Contains(id, ":")
}

// Reader reads the checkpoint, parsing it only if it has changed since the previous call. The zero Reader is ready to
// use.
type Reader struct {
	info os.FileInfo // of the last file that was parsed
	last Record

	files int
}

// Files returns how many versions of the checkpoint have been parsed so far.
func (r *Reader) Files() int { return r.files }

// Read returns the content of the checkpoint in the kubelet's device plugin directory, or an empty record if there has
// never been a checkpoint. If the checkpoint has disappeared, the error wraps [os.ErrNotExist].
func (r *Reader) Read(kubeletDir string) (Record, error) {
	path := filepath.Join(kubeletDir, File)
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) // don't block if it is a pipe
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

// content is the part of the checkpoint's format that this package reads.
type content struct {
	Data *struct{ PodDeviceEntries []podDeviceEntry }
}

type podDeviceEntry struct {
	PodUID, ContainerName, ResourceName string
	DeviceIDs                           map[string][]string // by NUMA node
	AllocResp                           []byte              // a ContainerAllocateResponse
}

// Encode returns the entries in the kubelet's format, for [Decode]. It omits entries whose Allocate response can't be
// parsed.
func Encode(entries []Entry) ([]byte, error) {
	c := content{Data: &struct{ PodDeviceEntries []podDeviceEntry }{}}
	for _, e := range entries {
		if e.answer == nil {
			continue
		}
		answer, err := proto.MarshalOptions{Deterministic: true}.Marshal(e.answer)
		if err != nil {
			return nil, err
		}
		c.Data.PodDeviceEntries = append(c.Data.PodDeviceEntries, podDeviceEntry{e.PodUID, e.Container, e.Resource, map[string][]string{"0": e.IDs}, answer})
	}
	return json.Marshal(c)
}

// Decode returns the entries that [Encode] has encoded.
func Decode(text []byte) ([]Entry, error) {
	record, err := parse(text)
	return record.Entries, err
}

// parse parses the checkpoint. It doesn't set Written.
func parse(text []byte) (Record, error) {
	var found content
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

// Pods returns the UIDs of the pods in the record, keyed by device id.
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
