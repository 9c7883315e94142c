package opae_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"b-com.com/accelerator-device-plugin/internal/sysfs"
	"b-com.com/accelerator-device-plugin/inventory"
	"b-com.com/accelerator-device-plugin/inventory/opae"
	"b-com.com/accelerator-device-plugin/inventory/port"
	"b-com.com/accelerator-device-plugin/sim/board"
)

// ignore ignores fields that package port tests: the errors of conditions, and the properties of
// lost files. It ignores incarnations, which differ from run to run.
var ignore = cmp.Options{
	cmpopts.IgnoreFields(inventory.Unit{}, "Incarnation"),
	cmpopts.IgnoreFields(inventory.Condition{}, "Err"),
	cmpopts.IgnoreFields(inventory.Reading{}, "Observed"),
	cmpopts.IgnoreFields(inventory.HealthFile{}, "Lost", "Row", "Reason"),
	cmpopts.IgnoreFields(inventory.Unit{}, "NodeNumbers"), // TestNodeNumbers of inventory/port
}

const address = "0000:82:00.0"

// node unfolds boards of testdata into a new directory and returns the host.
func node(t *testing.T, boards ...string) sysfs.Host {
	t.Helper()
	root := t.TempDir()
	for _, b := range boards {
		if err := board.Unfold(root, filepath.Join("../../testdata/sysfs", b+".txtar")); err != nil {
			t.Fatal(err)
		}
	}
	return sysfs.Host{Sys: root + "/sys", Dev: root + "/dev", Simulated: true}
}

// portOf returns the healthy port of the boards, after the changes.
func portOf(changes ...func(*inventory.Unit)) inventory.Unit {
	p := inventory.Unit{
		Name: "intel-fpga-port.0", PortIDKnown: true,
		Facts: inventory.Facts{AFUID: "00112233445566778899aabbccddeeff", InterfaceID: "a1b2c3d4e5f60718293a4b5c6d7e8f90", NUMANode: -1, Nodes: []string{"intel-fpga-port.0"}, Parent: "intel-fpga-fme.0", ParentNodes: []string{"intel-fpga-fme.0"}}, AFUIDKnown: true, InterfaceIDKnown: true,
		Files: []inventory.HealthFile{
			{Name: "afu_id"}, {Name: "errors/errors"}, {Name: "power_state"},
			{Name: "fme/driver"}, {Name: "fme/pr/interface_id"},
			{Name: "fme/errors/catfatal_errors", Absent: true},
			{Name: "fme/errors/nonfatal_errors", Absent: true},
			{Name: "fme/manager", Absent: true},
			{Name: "fme/errors/fme-errors/errors"},
			{Name: "fme/errors/pcie0_errors", Absent: true},
			{Name: "fme/errors/pcie1_errors", Absent: true},
			{Name: "fme/thermal_mgmt/threshold2_reached", Absent: true},
			{Name: "fme/thermal_mgmt/threshold1_reached", Absent: true},
			{Name: "fme/power_mgmt/threshold2_status", Absent: true},
			{Name: "fme/power_mgmt/threshold1_status", Absent: true},
			{Name: "pci/config", Absent: true},
			{Name: "pci/current_link_speed", Absent: true},
			{Name: "pci/current_link_width", Absent: true},
			{Name: "pci/aer_dev_fatal", Absent: true},
			{Name: "pci/aer_dev_nonfatal", Absent: true},
			{Name: "slot/aer_dev_fatal", Absent: true},
			{Name: "slot/aer_dev_nonfatal", Absent: true},
			{Name: "root/aer_rootport_total_err_fatal", Absent: true},
			{Name: "root/aer_rootport_total_err_nonfatal", Absent: true},
		},
	}
	for _, change := range changes {
		change(&p)
	}
	return p
}

func TestBoards(t *testing.T) {
	tests := []struct {
		board string           // or two boards: both drivers on one node
		want  []inventory.Unit // nil: no card
	}{
		{"opae-one-card", []inventory.Unit{portOf()}},
		{"opae-one-card kernel-6.1-one-card", []inventory.Unit{portOf()}},
		{"kernel-6.1-one-card", nil},
	}
	for _, tt := range tests {
		t.Run(tt.board, func(t *testing.T) {
			host := node(t, strings.Fields(tt.board)...)
			cards, err := opae.Family(port.PerPort).Cards(host)
			if err != nil {
				t.Fatal(err)
			}
			if tt.want == nil {
				if len(cards) != 0 {
					t.Errorf("cards %v, want none", cards)
				}
				return
			}
			if diff := cmp.Diff([]string{address}, cards); diff != "" {
				t.Errorf("cards (-want +got):\n%s", diff)
			}
			got, err := opae.Family(port.PerPort).Read(host, address)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(inventory.Reading{Units: tt.want}, got, ignore); diff != "" {
				t.Errorf("reading (-want +got):\n%s", diff)
			}
		})
	}
}

func TestEdits(t *testing.T) {
	const entry = "devices/pci0000:80/0000:80:02.0/0000:82:00.0/fpga/intel-fpga-dev.0/"
	tests := []struct {
		name, file, content string
		want                func(*inventory.Unit)
	}{
		{"AP6", "intel-fpga-port.0/errors/errors", "0x4000000000000\n", func(p *inventory.Unit) {
			p.Conditions = []inventory.Condition{{Reason: "port-ap6", Health: inventory.Unhealthy, Row: "port-ap6"}}
		}},
		{"NUMA node", "../../numa_node", "1\n", func(p *inventory.Unit) { p.NUMANode = 1 }},
		{"capitals", "intel-fpga-fme.0/pr/interface_id", "A1B2C3D4E5F60718293A4B5C6D7E8F90\n", nil},
		{"padded past a page", "intel-fpga-fme.0/pr/interface_id",
			"a1b2c3d4e5f60718293a4b5c6d7e8f90\n" + strings.Repeat("\x00", 4063) + "\n", nil},
		{"interface dead", "intel-fpga-fme.0/pr/interface_id", strings.Repeat("f", 32), func(p *inventory.Unit) {
			p.InterfaceID, p.InterfaceIDKnown = "", false
			p.Conditions = []inventory.Condition{{Reason: "fme-dead", Health: inventory.Unhealthy, Row: "fme-dead", Dead: true}}
			p.Files = slices.DeleteFunc(p.Files, func(f inventory.HealthFile) bool {
				return strings.HasPrefix(f.Name, "fme/thermal_mgmt/") || strings.HasPrefix(f.Name, "fme/power_mgmt/")
			})
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			host := node(t, "opae-one-card")
			if err := os.WriteFile(filepath.Join(host.Sys, entry, tt.file), []byte(tt.content), 0o644); err != nil {
				t.Fatal(err)
			}
			want := portOf()
			if tt.want != nil {
				tt.want(&want)
			}
			got, err := opae.Family(port.PerPort).Read(host, address)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff([]inventory.Unit{want}, got.Units, ignore); diff != "" {
				t.Errorf("ports (-want +got):\n%s", diff)
			}
		})
	}
}

func TestReadOfNoCard(t *testing.T) {
	host := node(t, "kernel-6.1-one-card", "opae-one-card")
	for _, card := range []string{"0000:01:00.0", "0000:82:00.1", "pool"} {
		if _, err := opae.Family(port.PerPort).Read(host, card); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: error %v, want one that wraps fs.ErrNotExist", card, err)
		}
	}
}
