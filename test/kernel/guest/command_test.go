package main

import (
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	oci "github.com/opencontainers/runtime-spec/specs-go"

	"b-com.com/accelerator-device-plugin/programming"
)

const (
	afu      = "deadbeef000102030405060708090a0b"
	regionID = "69528db6eb31577a8c3668f9faa081f6"
)

func TestWriteBitstream(t *testing.T) {
	dir := t.TempDir()
	if err := writeBitstream(dir, []string{"a.gbs", afu}); err != nil {
		t.Fatal(err)
	}
	got, err := programming.Open(filepath.Join(dir, "a.gbs"))
	if err != nil {
		t.Fatal(err)
	}
	defer got.Close()
	if got.AFUID != afu || got.InterfaceID != regionID || got.Size != 64 {
		t.Errorf("got %+v, want AFU %s, interface %s, 64 bytes", got, afu, regionID)
	}
	if err := writeBitstream(dir, []string{"a.gbs", afu, regionID, "cut=40"}); err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(filepath.Join(dir, "a.gbs")); err != nil || len(text) != 40 {
		t.Errorf("%d bytes, %v, want 40", len(text), err)
	}
	if err := writeBitstream(dir, []string{"a.gbs", afu, "cut=1000"}); err == nil || !strings.HasPrefix(err.Error(), "cut: found 1000, want at most") {
		t.Errorf("cut above the size: got %v, want an error", err)
	}
}

func TestWriteBundle(t *testing.T) {
	specs, bundle := t.TempDir(), filepath.Join(t.TempDir(), "bundle")
	spec := `{"cdiVersion": "0.6.0", "kind": "fpga.intel.com/fpga", "devices": [{"name": "01:00.0", "containerEdits": {
		"deviceNodes": [{"path": "/dev/null"}],
		"hooks": [{"hookName": "createRuntime", "path": "/bin/accelerator-fpga", "args": ["accelerator-fpga", "hook"]}]}}]}`
	if err := os.WriteFile(filepath.Join(specs, "a.json"), []byte(spec), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := writeBundle(bundle, specs, []string{"01:00.0"}, []string{"FPGA_AFU_1=" + afu}); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(bundle, "config.json"))
	if err != nil {
		t.Fatal(err)
	}
	var got oci.Spec
	if err := json.Unmarshal(text, &got); err != nil {
		t.Fatal(err)
	}
	want := &oci.Hooks{CreateRuntime: []oci.Hook{{Path: "/bin/accelerator-fpga", Args: []string{"accelerator-fpga", "hook"}}}}
	if diff := cmp.Diff(want, got.Hooks); diff != "" {
		t.Errorf("hooks (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"PATH=/bin", "FPGA_AFU_1=" + afu}, got.Process.Env); diff != "" {
		t.Errorf("env (-want +got):\n%s", diff)
	}
	if len(got.Linux.Devices) != 1 || got.Linux.Devices[0].Path != "/dev/null" {
		t.Errorf("devices %v", got.Linux.Devices)
	}
	if err := writeBundle(bundle, specs, []string{"02:00.0"}, nil); err == nil || !strings.Contains(err.Error(), "fpga.intel.com/fpga=02:00.0") {
		t.Errorf("device without a spec: got %v, want an error with its name", err)
	}
}

func TestSays(t *testing.T) {
	r := &rig{output: "port  afu\ndfl-port.0\tdead\n"}
	if err := r.says("afu dfl-port.0 dead"); err != nil {
		t.Error(err)
	}
	if err := r.says("dfl-port.1"); err == nil {
		t.Error("text that is not in the output: got no error, want one")
	}
}

// An open of a node while commands run is attributed to the commands.
func TestOpens(t *testing.T) {
	dir := t.TempDir()
	node := filepath.Join(dir, "dfl-port.0")
	open := func() {
		if _, err := os.ReadFile(node); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(node, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	o, err := watchOpens(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := o.attribute(true); err != nil {
		t.Fatal(err)
	}
	open()
	if err := o.attribute(false); err != nil {
		t.Fatal(err)
	}
	if err := o.check(); err != nil {
		t.Errorf("opened by a command: got %v, want no error", err)
	}
	open()
	if names, err := o.byCommands(); err != nil || len(names) > 0 {
		t.Errorf("opened after the commands had ended: got %v, %v; want none", names, err)
	}
	if err := o.check(); err == nil || err.Error() != "nodes opened by other processes: found dfl-port.0, want none" {
		t.Errorf("opened by another process: got %v, want an error", err)
	}
	if err := o.attribute(true); err != nil {
		t.Fatal(err)
	}
	open()
	if names, err := o.byCommands(); err != nil || !cmp.Equal(names, []string{"dfl-port.0"}) {
		t.Errorf("opened by commands: got %v, %v; want dfl-port.0", names, err)
	}
}

func TestReadSyslog(t *testing.T) {
	r := &rig{journal: &journal{copy: io.Discard}, syslogged: make(chan struct{})}
	r.readSyslog(strings.NewReader(`<30>Nov 22 09:00:00 accelerator-fpga[7]: {"event":"programming.done","device":"01:00.0"}`))
	if !r.journal.find("programming.done", map[string]string{"device": "01:00.0"}, false) {
		t.Errorf("journal: found %v, want an event programming.done", r.journal.lines)
	}
}

// closeNode closes the most recently opened of several nodes with one name: the card of an
// earlier one may have been removed.
func TestCloseNode(t *testing.T) {
	open := func() *os.File {
		f, err := os.OpenFile("/dev/null", os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	first, last := open(), open()
	defer first.Close()
	r := &rig{machine: &machine{kept: []*os.File{first, last}}}
	if err := r.closeNode("null"); err != nil {
		t.Error(err)
	}
	if len(r.kept) != 1 || r.kept[0] != first {
		t.Error("open nodes: want the first one only")
	}
	if err := r.closeNode("zero"); err == nil {
		t.Error("closeNode of a node that is not open: got no error, want one")
	}
}
