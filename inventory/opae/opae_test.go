package opae_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"b-com.com/accelerator-device-plugin/inventory"
	"b-com.com/accelerator-device-plugin/inventory/opae"
	"b-com.com/accelerator-device-plugin/inventory/port"
	"b-com.com/accelerator-device-plugin/test/compare"
	"b-com.com/accelerator-device-plugin/test/familytest"
	"b-com.com/accelerator-device-plugin/test/must"
)

const address = "0000:82:00.0"

// TestBoards reads a card from the places where this driver puts its files. What the files mean is tested in
// inventory/port.
func TestBoards(t *testing.T) {
	unit := inventory.Unit{
		Name: "intel-fpga-port.0", PortIDKnown: true, AFUIDKnown: true, InterfaceIDKnown: true,
		Facts: inventory.Facts{
			AFUID: "00112233445566778899aabbccddeeff", InterfaceID: "a1b2c3d4e5f60718293a4b5c6d7e8f90", NUMANode: -1,
			Nodes: []string{"intel-fpga-port.0"}, NodeNumbers: []string{"244:0"}, Parent: "intel-fpga-fme.0", ParentNodes: []string{"intel-fpga-fme.0"},
		},
	}
	dead := unit
	dead.InterfaceID, dead.InterfaceIDKnown = "", false
	dead.Conditions = []inventory.Condition{{Reason: "fme-dead", Health: inventory.Unhealthy, Row: "fme-dead", Dead: true}}
	for _, tt := range []struct {
		boards      string // the third one belongs to the other driver
		interfaceID string // written to the board; "": unchanged
		want        familytest.Readings
	}{
		{"opae-one-card", "", familytest.Readings{address: {unit}}},
		{"opae-one-card", strings.Repeat("f", 32), familytest.Readings{address: {dead}}},
		{"opae-one-card", "A1B2C3D4E5F60718293A4B5C6D7E8F90\n" + strings.Repeat("\x00", 4063) + "\n", familytest.Readings{address: {unit}}},
		{"opae-one-card kernel-6.1-one-card", "", familytest.Readings{address: {unit}}},
		{"kernel-6.1-one-card", "", familytest.Readings{}},
	} {
		host := familytest.Node(t, strings.Fields(tt.boards)...)
		if tt.interfaceID != "" {
			path := host.Sys + "/devices/pci0000:80/0000:80:02.0/" + address + "/fpga/intel-fpga-dev.0/intel-fpga-fme.0/pr/interface_id"
			must.Succeed(t, os.WriteFile(path, []byte(tt.interfaceID), 0o644))
		}
		got, _ := familytest.ReadAll(t, host, opae.Family(port.PerPort))
		compare.Values(t, fmt.Sprintf("%s with %.5q: readings", tt.boards, tt.interfaceID), tt.want, got, familytest.Ignore)
		for _, f := range append(got[address], inventory.Unit{})[0].Files {
			if strings.HasPrefix(tt.interfaceID, "f") && strings.Contains(f.Name, "_mgmt/") {
				t.Errorf("%s: read, want no alarms of a dead FME", f.Name)
			}
		}
	}
}

func TestNoCard(t *testing.T) {
	familytest.NoCard(t, familytest.Node(t, "kernel-6.1-one-card", "opae-one-card"), opae.Family(port.PerPort), "0000:01:00.0", "0000:82:00.1", "pool")
}
