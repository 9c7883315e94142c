package checkpoint_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"google.golang.org/protobuf/proto"
	"k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"b-com.com/accelerator-device-plugin/kubelet/checkpoint"
	"b-com.com/accelerator-device-plugin/test/compare"
	"b-com.com/accelerator-device-plugin/test/must"
)

const resource = "b-com.com/accelerator"

// entry returns the JSON of a kubelet checkpoint entry that contains this Allocate response.
func entry(t testing.TB, resource string, answer *v1beta1.ContainerAllocateResponse, devices string) string {
	t.Helper()
	raw := must.Value(proto.Marshal(answer))(t)
	return entryOf(resource, raw, devices)
}

func entryOf(resource string, answer []byte, devices string) string {
	encoded, _ := json.Marshal(answer)
	return `{"PodUID":"5e0b","ContainerName":"main","ResourceName":"` + resource + `","DeviceIDs":` + devices + `,"AllocResp":` + string(encoded) + `}`
}

func file(entries ...string) string {
	return `{"Data":{"PodDeviceEntries":[` + strings.Join(entries, ",") + `],"RegisteredDevices":{"` + resource + `":["3b:00.0"]}},"Checksum":1}`
}

// given returns a response with these device nodes and without CDI devices.
func given(nodes ...string) *v1beta1.ContainerAllocateResponse {
	answer := &v1beta1.ContainerAllocateResponse{Annotations: map[string]string{}}
	for _, name := range nodes {
		answer.Devices = append(answer.Devices, &v1beta1.DeviceSpec{HostPath: "/host/dev/" + name, ContainerPath: "/dev/" + name})
	}
	return answer
}

// named returns a response with the name of a CDI device.
func named() *v1beta1.ContainerAllocateResponse {
	return &v1beta1.ContainerAllocateResponse{
		Annotations: map[string]string{}, CdiDevices: []*v1beta1.CDIDevice{{Name: "fpga.intel.com/fpga=3b:00.0"}},
	}
}

func annotated(answer *v1beta1.ContainerAllocateResponse, id string, nodes ...string) *v1beta1.ContainerAllocateResponse {
	checkpoint.Annotate(answer.Annotations, id, nodes)
	return answer
}

// grant describes what one container was given with one device.
type grant struct {
	holder, resource, id string
	ours                 bool
	nodes                []string // if nil and unknown is set: not known
	unknown              bool
}

// grants returns what the entries contain, in order.
func grants(record checkpoint.Record) (all []grant) {
	for _, e := range record.Entries {
		for _, id := range e.IDs {
			nodes, err := e.Nodes(id, "/host/dev")
			all = append(all, grant{e.Holder(), e.Resource, id, e.Ours(id), nodes, err != nil})
		}
	}
	return all
}

func TestRead(t *testing.T) {
	of := func(id string, ours bool, nodes ...string) grant {
		return grant{"5e0b/main", resource, id, ours, nodes, false}
	}
	one := func(g grant) []grant { return []grant{g} }
	unknown := grant{"5e0b/main", resource, "3b:00.0", false, nil, true}
	for _, tt := range []struct {
		name, text string
		want       []grant
		err        string // substring
	}{
		{name: "no entry", text: file()},
		{name: "annotation", text: file(entry(t, resource, annotated(given("dfl-port.0"), "3b:00.0", "dfl-port.0", "245:0"), `{"-1":["3b:00.0"]}`)),
			want: one(of("3b:00.0", true, "dfl-port.0", "245:0"))},
		{name: "annotation beside a CDI device", text: file(entry(t, resource, annotated(named(), "3b:00.0", "dfl-port.0", "245:0"), `{"0":["3b:00.0"]}`)),
			want: one(of("3b:00.0", true, "dfl-port.0", "245:0"))},
		{name: "annotation without nodes beside a CDI device, of a device with mounts", text: file(entry(t, resource, annotated(named(), "3b:00.0"), `{"0":["3b:00.0"]}`)),
			want: one(of("3b:00.0", true))},
		{name: "no annotation: nodes below the device root", text: file(entry(t, resource, given("vfio/12", "../etc/passwd", "dfl-port.0", "dfl-port.0"), `{"-1":["3b:00.0"]}`)),
			want: one(of("3b:00.0", false, "dfl-port.0", "vfio/12"))},
		{name: "no annotation: all nodes may be of each device", text: file(entry(t, resource, given("dfl-port.1", "dfl-port.0"), `{"0":["5f:00.0"],"1":["3b:00.0","5f:00.0"]}`)),
			want: []grant{of("3b:00.0", false, "dfl-port.0", "dfl-port.1"), of("5f:00.0", false, "dfl-port.0", "dfl-port.1")}},
		{name: "no annotation, no nodes", text: file(entry(t, resource, given(), `{"-1":["unit-0"]}`)), want: one(of("unit-0", false))},
		{name: "nodes beside a CDI device with a hook, as from Intel's plugin", text: file(entry(t, resource,
			&v1beta1.ContainerAllocateResponse{Devices: given("intel-fpga-port.0").Devices, CdiDevices: named().CdiDevices}, `{"-1":["3b:00.0"]}`)),
			want: one(of("3b:00.0", false, "intel-fpga-port.0"))},
		{name: "CDI device alone", text: file(entry(t, resource, named(), `{"-1":["3b:00.0"]}`)), want: one(unknown)},
		{name: "CDI device in an annotation, as from sriov-network-device-plugin", text: file(entry(t, resource, &v1beta1.ContainerAllocateResponse{
			Annotations: map[string]string{"cdi.k8s.io/intel.com_net-accel": "intel.com/net-accel=0000:3b:00.0"}}, `{"-1":["3b:00.0"]}`)), want: one(unknown)},
		{name: "only ids, as from the original plugin for Intel's cards", text: file(entry(t, resource, &v1beta1.ContainerAllocateResponse{
			Envs: map[string]string{"ACCELERATOR_DEVICES": "3b:00.0"}}, `{"-1":["3b:00.0"]}`)), want: one(unknown)},
		{name: "only a pool's unit, as from releases before 0.2.0", text: file(entry(t, resource, &v1beta1.ContainerAllocateResponse{
			Envs: map[string]string{"ACCELERATOR_DEVICES": "0", "ACCELERATOR_UNITS": "0"}}, `{"-1":["0"]}`)), want: one(of("0", false))},
		{name: "two devices with an annotation, one without", text: file(entry(t, resource,
			annotated(annotated(given("vfio/12", "vfio/13", "vfio/vfio"), "3b:00.1", "vfio/12", "240:0"), "3b:00.2", "vfio/13"), `{"-1":["3b:00.1","3b:00.2"],"1":["5e:00.0"]}`)),
			want: []grant{of("3b:00.1", true, "vfio/12", "240:0"), of("3b:00.2", true, "vfio/13"), of("5e:00.0", false)}},
		{name: "two entries, another resource", text: file(
			entry(t, resource, annotated(given(), "3b:00.0", "dfl-port.0"), `{"-1":["3b:00.0"]}`), entry(t, "example.com/other", given("other0"), `{"-1":["3b:00.0"]}`)),
			want: []grant{of("3b:00.0", true, "dfl-port.0"), {"5e0b/main", "example.com/other", "3b:00.0", false, []string{"other0"}, false}}},
		{name: "rubbish for an answer", text: file(entryOf(resource, []byte{0xff, 0xff}, `{"-1":["3b:00.0"]}`)), want: one(unknown)},
		{name: "no JSON", text: "PodDeviceEntries", err: "invalid character"},
		{name: "empty file", text: "", err: "unexpected end"},
		{name: "cut off", text: file()[:30], err: "unexpected end"},
		{name: "another format", text: `{"version":3}`, err: "found no Data, want the format of Kubernetes 1.20 or newer"},
		{name: "format of 1.19", text: file(entry(t, resource, given("dfl-port.0"), `["3b:00.0"]`)), err: "cannot unmarshal array"},
		{name: "too long", text: strings.Repeat(" ", 16<<20+1), err: "found more than 4 MiB: a pod has very many containers or devices"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, checkpoint.File)
			at := time.Unix(1_800_000_000, 0)
			must.Succeed(t, os.WriteFile(path, []byte(tt.text), 0o600), os.Chtimes(path, at, at))
			got, err := new(checkpoint.Reader).Read(dir)
			if tt.err != "" {
				if err == nil || !strings.Contains(err.Error(), tt.err) || !strings.Contains(err.Error(), checkpoint.File) {
					t.Errorf("error %v, want one with the name of the file and %q", err, tt.err)
				}
				return
			}
			if err != nil || !got.Written.Equal(at) {
				t.Fatalf("error %v, written %v, want %v", err, got.Written, at)
			}
			compare.Values(t, "record", tt.want, grants(got), cmp.AllowUnexported(grant{}), cmpopts.EquateEmpty())
		})
	}
}

func TestNoCheckpoint(t *testing.T) {
	if got, err := new(checkpoint.Reader).Read(t.TempDir()); err != nil || len(got.Entries) > 0 || !got.Written.IsZero() {
		t.Errorf("record %v, error %v, want an empty one", got, err)
	}
	for name, create := range map[string]func(path string) error{
		"directory": func(path string) error { return os.Mkdir(path, 0o700) },
		"pipe":      func(path string) error { return syscall.Mkfifo(path, 0o600) },
	} {
		dir := t.TempDir()
		must.Succeed(t, create(filepath.Join(dir, checkpoint.File)))
		compare.Error(t, fmt.Sprintf("Read of a %s", name), "", compare.ErrorOf(new(checkpoint.Reader).Read(dir)))
	}
}

// A file is parsed again only if it has changed. A file that can't be parsed doesn't replace the last good one.
func TestReadAgain(t *testing.T) {
	dir := t.TempDir()
	path, r := filepath.Join(dir, checkpoint.File), checkpoint.Reader{}
	text := func(id string) string { return file(entry(t, resource, given(), `{"-1":["`+id+`"]}`)) }
	at := time.Unix(1_800_000_000, 0)
	for _, step := range []struct {
		name string
		do   func() error
		want string // the only device's ID
	}{
		{"the first time", func() error { return os.WriteFile(path, []byte(text("3b:00.0")), 0o600) }, "3b:00.0"},
		{"same file, size and time", func() error {
			return errors.Join(os.Chtimes(path, at, at), compare.ErrorOf(r.Read(dir)), os.WriteFile(path, []byte(text("5e:00.0")), 0o600), os.Chtimes(path, at, at))
		}, "3b:00.0"},
		{"another time", func() error { return os.Chtimes(path, at, at.Add(1)) }, "5e:00.0"},
		{"another size", func() error {
			return errors.Join(os.WriteFile(path, []byte(text("3b:00.0-p1")), 0o600), os.Chtimes(path, at, at.Add(1)))
		}, "3b:00.0-p1"},
		{"replaced", func() error {
			return errors.Join(os.WriteFile(path+"1", []byte(text("5e:00.0-p1")), 0o600), os.Chtimes(path+"1", at, at.Add(1)), os.Rename(path+"1", path))
		}, "5e:00.0-p1"},
		{"cut off", func() error { return os.WriteFile(path, []byte("{"), 0o600) }, ""},
		{"removed", func() error { return os.Remove(path) }, ""},
	} {
		must.Succeed(t, step.do())
		record, err := r.Read(dir)
		got := ""
		for _, g := range grants(record) {
			got += g.id
		}
		if got != step.want || (err != nil) != (step.name == "cut off" || step.name == "removed") {
			t.Errorf("%s: device %q, error %v, want %q", step.name, got, err, step.want)
		}
	}
}

// Whatever the file contains, Parse returns either a record or an error. Entries are the same after they have been encoded and decoded.
func FuzzRead(f *testing.F) {
	f.Add(file(entry(f, resource, annotated(named(), "3b:00.0", "dfl-port.0", "245:0"), `{"0":["3b:00.0"]}`)))
	f.Add(file(entry(f, resource, given("dfl-port.0"), `{"-1":["3b:00.0"]}`)))
	f.Add(`{"Data":{"PodDeviceEntries":[{"AllocResp":null,"DeviceIDs":null}]}}`)
	f.Fuzz(func(t *testing.T, text string) {
		record, err := checkpoint.Parse([]byte(text))
		if err != nil && len(record.Entries) > 0 {
			t.Fatalf("record %v beside error %v", record, err)
		}
		encoded := must.Value(checkpoint.Encode(record.Entries))(t)
		decoded := must.Value(checkpoint.Decode(encoded))(t)
		compare.Equal(t, "encoded again", string(encoded), string(must.Value(checkpoint.Encode(decoded))(t)))
		for _, g := range grants(record) {
			for _, name := range g.nodes {
				if g.unknown || !g.ours && !filepath.IsLocal(name) {
					t.Errorf("node %q of %+v", name, g)
				}
			}
		}
	})
}

func TestPods(t *testing.T) {
	record, err := checkpoint.Parse([]byte(`{"Data":{"PodDeviceEntries":[
		{"PodUID":"a","ContainerName":"init","DeviceIDs":{"-1":["3b:00.0"],"0":["5e:00.0"]}},
		{"PodUID":"a","ContainerName":"main","DeviceIDs":{"-1":["3b:00.0"]}},
		{"PodUID":"b","DeviceIDs":{"-1":["3b:00.0"]}}]}}`))
	must.Succeed(t, err)
	compare.Values(t, "pods", map[string][]string{"3b:00.0": {"a", "b"}, "5e:00.0": {"a"}}, record.Pods())
}
