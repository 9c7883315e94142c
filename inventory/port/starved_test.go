package port_test

import (
	"testing"

	"b-com.com/accelerator-device-plugin/inventory"
	"b-com.com/accelerator-device-plugin/inventory/dfl"
	"b-com.com/accelerator-device-plugin/inventory/opae"
	"b-com.com/accelerator-device-plugin/inventory/port"
	"b-com.com/accelerator-device-plugin/test/familytest"
)

// If a single access fails during a reading or listing because of a shortage of descriptors or memory, the result is
// either that error or the same as without the shortage.
func TestShortage(t *testing.T) {
	for _, test := range []struct {
		name, board, card string
		family            inventory.Family
	}{
		{"all files", "dfl-all-files", "0000:03:00.0", dfl.Family(port.PerPort)},
		{"all files of OPAE", "opae-all-files", "0000:83:00.0", opae.Family(port.PerPort)},
		{"virtual function", "dfl-vf", "0000:03:00.0", dfl.Family(port.PerPort)},
		{"unbound port", "kernel-6.1-port-unbound", "0000:01:00.0", dfl.Family(port.PerPort)},
		{"unbound FME", "kernel-6.1-fme-unbound", "0000:01:00.0", dfl.Family(port.PerPort)},
		{"region", "dfl-vf", "0000:01:00.0", dfl.Family(port.PerFME)},
		{"region without FME", "dfl-vf", "0000:03:00.0", dfl.Family(port.PerFME)},
		{"region of two ports with node", "kernel-6.1-two-ports", "0000:01:00.0", dfl.Family(port.PerFMEWithNode)},
		{"no such card", "dfl-all-files", "0000:09:00.0", dfl.Family(port.PerPort)},
	} {
		t.Run(test.name, func(t *testing.T) {
			familytest.Shortage(t, familytest.Node(t, test.board), test.family, test.card)
		})
	}
}
