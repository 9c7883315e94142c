package opae_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"b-com.com/accelerator-device-plugin/internal/board"
	"b-com.com/accelerator-device-plugin/internal/sysfs"
	"b-com.com/accelerator-device-plugin/inventory"
	"b-com.com/accelerator-device-plugin/inventory/opae"
)

// ignoreErr leaves out the words behind a condition, which package port tests.
var ignoreErr = cmpopts.IgnoreFields(inventory.Condition{}, "Err")

var _ inventory.Family = opae.Family{}

const address = "0000:82:00.0"

func node(t *testing.T, name string) sysfs.Host {
	t.Helper()
	root := t.TempDir()
	if err := board.Unfold(root, filepath.Join("../../testdata/sysfs", name+".txtar")); err != nil {
		t.Fatal(err)
	}
	return sysfs.Host{Sys: root + "/sys", Dev: root + "/dev", Simulated: true}
}

// portOf is the healthy port of the boards, changed by each change.
func portOf(changes ...func(*inventory.Port)) inventory.Port {
	p := inventory.Port{
		Name: "intel-fpga-port.0", PortIDKnown: true,
		AFUID: "00112233445566778899aabbccddeeff", AFUIDKnown: true,
		InterfaceID: "a1b2c3d4e5f60718293a4b5c6d7e8f90", InterfaceIDKnown: true,
		NUMANode: -1, Nodes: []string{"intel-fpga-port.0"},
		Parent: "intel-fpga-fme.0", ParentNodes: []string{"intel-fpga-fme.0"},
		Files: []inventory.HealthFile{
			{Name: "afu_id", Lost: inventory.Unhealthy},
			{Name: "errors/errors", Lost: inventory.Unhealthy},
			{Name: "power_state", Lost: inventory.Unhealthy},
		},
	}
	for _, change := range changes {
		change(&p)
	}
	return p
}

func TestBoards(t *testing.T) {
	tests := []struct {
		board string
		want  []inventory.Port // nil: no card
	}{
		{"opae-one-card", []inventory.Port{portOf()}},
		{"both-drivers", []inventory.Port{portOf(func(p *inventory.Port) { p.NUMANode = 1 })}},
		{"dfl-one-card", nil},
	}
	for _, tt := range tests {
		t.Run(tt.board, func(t *testing.T) {
			host := node(t, tt.board)
			cards, err := opae.Family{}.Cards(host)
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
			got, err := opae.Family{}.Read(host, address)
			if err != nil {
				t.Fatal(err)
			}
			ignore := cmpopts.IgnoreFields(inventory.Port{}, "Incarnation")
			if diff := cmp.Diff(inventory.Reading{Ports: tt.want}, got, ignore, ignoreErr); diff != "" {
				t.Errorf("reading (-want +got):\n%s", diff)
			}
		})
	}
}

func TestEdits(t *testing.T) {
	const entry = "devices/pci0000:80/0000:80:02.0/0000:82:00.0/fpga/intel-fpga-dev.0/"
	tests := []struct {
		name, file, content string
		want                func(*inventory.Port)
	}{
		{"AP6", "intel-fpga-port.0/errors/errors", "0x4000000000000\n", func(p *inventory.Port) {
			p.Conditions = []inventory.Condition{{Reason: "port-ap6", Health: inventory.Unhealthy}}
		}},
		{"capitals", "intel-fpga-fme.0/pr/interface_id", "A1B2C3D4E5F60718293A4B5C6D7E8F90\n", nil},
		{"padded past a page", "intel-fpga-fme.0/pr/interface_id",
			"a1b2c3d4e5f60718293a4b5c6d7e8f90\n" + strings.Repeat("\x00", 4063) + "\n", nil},
		{"interface dead", "intel-fpga-fme.0/pr/interface_id", strings.Repeat("f", 32), func(p *inventory.Port) {
			p.InterfaceID, p.InterfaceIDKnown = "", false
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
			got, err := opae.Family{}.Read(host, address)
			if err != nil {
				t.Fatal(err)
			}
			ignore := cmpopts.IgnoreFields(inventory.Port{}, "Incarnation")
			if diff := cmp.Diff([]inventory.Port{want}, got.Ports, ignore, ignoreErr); diff != "" {
				t.Errorf("ports (-want +got):\n%s", diff)
			}
		})
	}
}

func TestReadOfNoCard(t *testing.T) {
	host := node(t, "both-drivers")
	for _, card := range []string{"0000:01:00.0", "0000:82:00.1", "pool"} {
		if _, err := (opae.Family{}).Read(host, card); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: error %v, want one that is fs.ErrNotExist", card, err)
		}
	}
}
