package port_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"b-com.com/accelerator-device-plugin/internal/sysfs"
	"b-com.com/accelerator-device-plugin/internal/sysfs/sysfstest"
	"b-com.com/accelerator-device-plugin/inventory"
	"b-com.com/accelerator-device-plugin/inventory/dfl"
	"b-com.com/accelerator-device-plugin/inventory/opae"
	"b-com.com/accelerator-device-plugin/inventory/port"
)

// If one access of a reading or a listing fails because of a shortage of descriptors or memory, the
// result is that error, or the same as without the shortage.
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
			host := node(t, test.board)
			for _, call := range []struct {
				name string
				do   func() (inventory.Reading, []string, error)
			}{
				{"Read", func() (inventory.Reading, []string, error) {
					r, err := test.family.Read(host, test.card)
					return r, nil, err
				}},
				{"Outline", func() (inventory.Reading, []string, error) {
					r, err := test.family.Outline(host, test.card)
					return r, nil, err
				}},
				{"Cards", func() (inventory.Reading, []string, error) {
					cards, err := test.family.Cards(host)
					return inventory.Reading{}, cards, err
				}},
			} {
				// text returns the result if the nth access is refused, or "" if it is a shortage.
				text := func(nth int) (result string, accesses int) {
					var r inventory.Reading
					var cards []string
					var err error
					accesses = sysfstest.Refuse(t, nth, func() { r, cards, err = call.do() })
					if sysfs.IsShortage(err) && !sysfs.Gone(err) || sysfs.IsShortage(r.Shortage()) {
						return "", accesses
					}
					r.Observed = nil // without an observation the next check is a reading
					return fmt.Sprintf("%+v\n%v\n%v", r, cards, err), accesses
				}
				want, accesses := text(-1)
				if want == "" || accesses == 0 {
					t.Fatalf("%s: result %q with %d accesses, want at least one and no shortage", call.name, want, accesses)
				}
				met := 0
				for nth := range accesses {
					got, _ := text(nth)
					if got == "" {
						met++
					} else if diff := cmp.Diff(want, got); diff != "" {
						t.Errorf("%s with access %d of %d refused (-want +got):\n%s", call.name, nth, accesses, diff)
					}
				}
				t.Logf("%s: %d accesses, of which %d cause a shortage", call.name, accesses, met)
				if met == 0 {
					t.Errorf("%s: found a shortage for none of %d accesses", call.name, accesses)
				}
			}
		})
	}
}
