package checkpoint_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"b-com.com/accelerator-device-plugin/server/checkpoint"
	"b-com.com/accelerator-device-plugin/server/podresources"
)

const resource = "b-com.com/accelerator"

// entry returns the JSON of an entry of the kubelet, with this answer of Allocate.
func entry(t testing.TB, resource string, answer *v1beta1.ContainerAllocateResponse, devices string) string {
	t.Helper()
	raw, err := proto.Marshal(answer)
	if err != nil {
		t.Fatal(err)
	}
	return entryOf(resource, raw, devices)
}

func entryOf(resource string, answer []byte, devices string) string {
	encoded, _ := json.Marshal(answer)
	return `{"PodUID":"5e0b","ContainerName":"main","ResourceName":"` + resource + `","DeviceIDs":` + devices + `,"AllocResp":` + string(encoded) + `}`
}

func file(entries ...string) string {
	return `{"Data":{"PodDeviceEntries":[` + strings.Join(entries, ",") + `],"RegisteredDevices":{"` + resource + `":["3b:00.0"]}},"Checksum":1}`
}

// given returns an answer with these nodes, without CDI.
func given(nodes ...string) *v1beta1.ContainerAllocateResponse {
	answer := &v1beta1.ContainerAllocateResponse{Annotations: map[string]string{}}
	for _, name := range nodes {
		answer.Devices = append(answer.Devices, &v1beta1.DeviceSpec{HostPath: "/host/dev/" + name, ContainerPath: "/dev/" + name})
	}
	return answer
}

// named returns an answer with the name of a CDI device.
func named() *v1beta1.ContainerAllocateResponse {
	return &v1beta1.ContainerAllocateResponse{
		Annotations: map[string]string{}, CdiDevices: []*v1beta1.CDIDevice{{Name: "fpga.intel.com/fpga=3b:00.0"}},
	}
}

func annotated(answer *v1beta1.ContainerAllocateResponse, id string, nodes ...string) *v1beta1.ContainerAllocateResponse {
	checkpoint.Annotate(answer.Annotations, id, nodes)
	return answer
}

// withIDs adds the variable with the ids of the devices to an answer, as in earlier releases.
func withIDs(answer *v1beta1.ContainerAllocateResponse, ids string) *v1beta1.ContainerAllocateResponse {
	answer.Envs = map[string]string{checkpoint.EnvDevices: ids}
	return answer
}

func TestRead(t *testing.T) {
	of := func(id string, nodes ...string) checkpoint.Record {
		return checkpoint.Record{podresources.Key{Resource: resource, ID: id}: {Nodes: nodes, Known: true}}
	}
	unknown := checkpoint.Record{podresources.Key{Resource: resource, ID: "3b:00.0"}: {}}
	for _, tt := range []struct {
		name, text string
		want       checkpoint.Record
		err        string // a part of it
	}{
		{name: "no entry", text: file(), want: checkpoint.Record{}},
		{name: "annotation", text: file(entry(t, resource, annotated(given("dfl-port.0"), "3b:00.0", "dfl-port.0", "245:0"), `{"-1":["3b:00.0"]}`)),
			want: of("3b:00.0", "245:0", "dfl-port.0")},
		{name: "annotation beside a CDI device", text: file(entry(t, resource, annotated(named(), "3b:00.0", "dfl-port.0", "245:0"), `{"0":["3b:00.0"]}`)),
			want: of("3b:00.0", "245:0", "dfl-port.0")},
		{name: "nodes alone", text: file(entry(t, resource, given("dfl-port.0"), `{"-1":["3b:00.0"]}`)), want: of("3b:00.0", "dfl-port.0")},
		{name: "nothing, of a pool", text: file(entry(t, resource, given(), `{"-1":["unit-0"]}`)), want: of("unit-0")},
		{name: "annotation without nodes beside a CDI device, of a device with mounts", text: file(entry(t, resource, annotated(named(), "3b:00.0"), `{"0":["3b:00.0"]}`)),
			want: of("3b:00.0")},
		{name: "CDI device alone", text: file(entry(t, resource, named(), `{"-1":["3b:00.0"]}`)), want: unknown},
		{name: "two devices", text: file(entry(t, resource,
			annotated(annotated(given("dfl-port.0", "dfl-port.1"), "3b:00.0", "dfl-port.0"), "3b:00.0-p1", "dfl-port.1"), `{"0":["3b:00.0"],"1":["3b:00.0-p1"]}`)),
			want: checkpoint.Record{
				podresources.Key{Resource: resource, ID: "3b:00.0"}:    {Nodes: []string{"dfl-port.0"}, Known: true},
				podresources.Key{Resource: resource, ID: "3b:00.0-p1"}: {Nodes: []string{"dfl-port.1"}, Known: true},
			}},
		{name: "two devices with a shared node, and one without nodes", text: file(entry(t, resource,
			withIDs(annotated(annotated(given("vfio/12", "vfio/13", "vfio/vfio"), "3b:00.1", "vfio/12", "240:0"), "3b:00.2", "vfio/13", "240:1"), "3b:00.1,3b:00.2,5e:00.0"),
			`{"-1":["3b:00.1","3b:00.2","5e:00.0"]}`)),
			want: checkpoint.Record{
				podresources.Key{Resource: resource, ID: "3b:00.1"}: {Nodes: []string{"240:0", "vfio/12"}, Known: true},
				podresources.Key{Resource: resource, ID: "3b:00.2"}: {Nodes: []string{"240:1", "vfio/13"}, Known: true},
				podresources.Key{Resource: resource, ID: "5e:00.0"}: {Known: true},
			}},
		{name: "two devices, nodes alone", text: file(entry(t, resource,
			withIDs(given("dfl-port.1", "dfl-port.0"), "3b:00.0-p1,3b:00.0"), `{"0":["3b:00.0"],"1":["3b:00.0-p1"]}`)),
			want: checkpoint.Record{
				podresources.Key{Resource: resource, ID: "3b:00.0"}:    {Nodes: []string{"dfl-port.0"}, Known: true},
				podresources.Key{Resource: resource, ID: "3b:00.0-p1"}: {Nodes: []string{"dfl-port.1"}, Known: true},
			}},
		{name: "two devices, three nodes", text: file(entry(t, resource,
			withIDs(given("dfl-port.0", "dfl-port.1", "dfl-port.2"), "3b:00.0,5f:00.0"), `{"-1":["3b:00.0","5f:00.0"]}`)),
			want: checkpoint.Record{
				podresources.Key{Resource: resource, ID: "3b:00.0"}: {}, podresources.Key{Resource: resource, ID: "5f:00.0"}: {},
			}},
		{name: "one device of two nodes", text: file(entry(t, resource, withIDs(given("dfl-port.0", "dfl-port.1"), "3b:00.0"), `{"-1":["3b:00.0"]}`)),
			want: of("3b:00.0", "dfl-port.0", "dfl-port.1")},
		{name: "nodes of devices that are not named", text: file(entry(t, resource,
			withIDs(given("dfl-port.0", "dfl-port.1"), "5f:00.0,60:00.0"), `{"-1":["3b:00.0"]}`)), want: unknown},
		{name: "two containers of a pod, in turn", text: file(
			entry(t, resource, annotated(given(), "3b:00.0", "dfl-port.0"), `{"-1":["3b:00.0"]}`),
			entry(t, resource, annotated(given(), "3b:00.0", "dfl-port.1"), `{"-1":["3b:00.0"]}`)),
			want: of("3b:00.0", "dfl-port.0", "dfl-port.1")},
		{name: "the same id of two resources", text: file(
			entry(t, resource, given("dfl-port.0"), `{"-1":["3b:00.0"]}`), entry(t, "example.com/other", given("other0"), `{"-1":["3b:00.0"]}`)),
			want: checkpoint.Record{
				podresources.Key{Resource: resource, ID: "3b:00.0"}:            {Nodes: []string{"dfl-port.0"}, Known: true},
				podresources.Key{Resource: "example.com/other", ID: "3b:00.0"}: {Nodes: []string{"other0"}, Known: true},
			}},
		{name: "rubbish for an answer", text: file(entryOf(resource, []byte{0xff, 0xff}, `{"-1":["3b:00.0"]}`)), want: unknown},
		{name: "no JSON", text: "PodDeviceEntries", err: "invalid character"},
		{name: "empty file", text: "", err: "unexpected end"},
		{name: "cut off", text: file()[:30], err: "unexpected end"},
		{name: "another format", text: `{"version":3}`, err: "found no Data, want the format of Kubernetes 1.20 or newer"},
		{name: "format of 1.19", text: file(entry(t, resource, given("dfl-port.0"), `["3b:00.0"]`)), err: "cannot unmarshal array"},
		{name: "too long", text: strings.Repeat(" ", 16<<20+1), err: "found more than the limit of 16777216 bytes"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, checkpoint.File), []byte(tt.text), 0o600); err != nil {
				t.Fatal(err)
			}
			got, err := checkpoint.Read(dir)
			if tt.err != "" {
				if err == nil || !strings.Contains(err.Error(), tt.err) || !strings.Contains(err.Error(), checkpoint.File) {
					t.Errorf("error %v, want one with the name of the file and %q", err, tt.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("record (-want +got):\n%s", diff)
			}
		})
	}
}

func TestNoCheckpoint(t *testing.T) {
	if got, err := checkpoint.Read(t.TempDir()); err != nil || len(got) != 0 {
		t.Errorf("record %v, error %v, want an empty one", got, err)
	}
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, checkpoint.File), 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := checkpoint.Read(dir); err == nil {
		t.Error("Read of a directory: found no error, want one")
	}
}

// For any content of the file there is either a record or an error.
func FuzzRead(f *testing.F) {
	f.Add(file(entry(f, resource, annotated(named(), "3b:00.0", "dfl-port.0", "245:0"), `{"0":["3b:00.0"]}`)))
	f.Add(file(entry(f, resource, given("dfl-port.0"), `{"-1":["3b:00.0"]}`)))
	f.Add(`{"Data":{"PodDeviceEntries":[{"AllocResp":null,"DeviceIDs":null}]}}`)
	f.Fuzz(func(t *testing.T, text string) {
		record, err := checkpoint.Parse([]byte(text))
		if (record == nil) == (err == nil) {
			t.Fatalf("record %v beside error %v", record, err)
		}
	})
}

func TestPods(t *testing.T) {
	dir := t.TempDir()
	if pods, err := checkpoint.Pods(dir); len(pods) > 0 || err != nil {
		t.Errorf("no file: %v, %v", pods, err)
	}
	path := filepath.Join(dir, checkpoint.File)
	for text, want := range map[string]map[string][]string{
		`{"Data":{"PodDeviceEntries":[
			{"PodUID":"a","ContainerName":"init","DeviceIDs":{"-1":["3b:00.0"],"0":["5e:00.0"]}},
			{"PodUID":"a","ContainerName":"main","DeviceIDs":{"-1":["3b:00.0"]}},
			{"PodUID":"b","DeviceIDs":{"-1":["3b:00.0"]}}]}}`: {"3b:00.0": {"a", "b"}, "5e:00.0": {"a"}},
		`{"Data":{}}`: {},
		`{}`:          nil,
		`{`:           nil,
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		pods, err := checkpoint.Pods(dir)
		if diff := cmp.Diff(want, pods); diff != "" || (err == nil) != (want != nil) {
			t.Errorf("%s: %v (-want +got):\n%s", text, err, diff)
		}
	}
}
