package port_test

import (
	"slices"
	"strings"
	"testing"

	"b-com.com/accelerator-device-plugin/inventory"
	"b-com.com/accelerator-device-plugin/inventory/dfl"
	"b-com.com/accelerator-device-plugin/inventory/opae"
	"b-com.com/accelerator-device-plugin/inventory/port"
)

// FuzzDecoders passes arbitrary values to each file's decoder. The resulting conditions must be in the table, and each
// must occur only once. A value that is invalid or comes from a dead part must not cause conditions.
func FuzzDecoders(f *testing.F) {
	for _, s := range []string{
		"0x0", "0", "1", "0x1", "0x6", "0xf", "0x4000000000000", "0xffffffffffffffff", "0xfffffffffffffffe",
		"operating", "write error", " error", "", "\x00", "0x", "six",
	} {
		f.Add(s)
	}
	rows := map[string]inventory.Health{}
	for _, r := range slices.Concat(dfl.Family(port.PerPort).Rows(), opae.Family(port.PerPort).Rows()) {
		rows[r.Name] = r.Health
	}
	decoders := port.Decoders()
	f.Fuzz(func(t *testing.T, value string) {
		for file, decode := range decoders {
			found, dead, err := decode(value)
			if (dead || err != nil) && len(found) > 0 || dead && err != nil {
				t.Errorf("%s = %q: conditions %+v, dead %v, error %v; want only one of them", file, value, found, dead, err)
			}
			seen := map[string]bool{}
			for _, c := range found {
				if seen[c.Reason] || rows[c.Row] != c.Health || c.Health == fine || !strings.HasPrefix(c.Reason, c.Row) {
					t.Errorf("%s = %q: condition %+v occurs twice, or is not in the table", file, value, c)
				}
				seen[c.Reason] = true
			}
		}
	})
}
