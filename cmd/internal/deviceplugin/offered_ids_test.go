package deviceplugin_test

import (
	"errors"
	"os"
	"strings"
	"testing"
)

// The files that are broken on the boards below, from their roots.
const (
	oneCardFME = "/sys/devices/pci0000:00/0000:00:01.0/0000:01:00.0/fpga_region/region0/dfl-fme.0/dfl-fme-region.1"
	oneCompat  = oneCardFME + "/fpga_region/region1/compat_id"
	oneAFU     = "/sys/devices/pci0000:00/0000:00:01.0/0000:01:00.0/fpga_region/region0/dfl-port.0/afu_id"
	secondAFU  = "/sys/devices/pci0001:3a/0001:3a:00.0/0001:3b:00.0/fpga_region/region0/dfl-port.10/afu_id"
)

// write and remove change a file below the root of a board.
func write(path, content string) func(root string) error {
	return func(root string) error {
		if _, err := os.Stat(root + path); err != nil {
			return err // a wrong path would change nothing
		}
		return os.WriteFile(root+path, []byte(content), 0o644)
	}
}

func remove(path string) func(root string) error {
	return func(root string) error {
		_, err := os.Stat(root + path)
		return errors.Join(err, os.RemoveAll(root+path))
	}
}

// without is the card of kernel-6.1-one-card without a name in mode af, and with this name in the modes of
// regions.
func without(region string, change func(offered) offered) byMode {
	return byMode{
		single:      []offered{change(well("01:00.0", testResource, "dfl-port.0"))},
		af:          []offered{change(well("01:00.0", notOffered, "dfl-port.0"))},
		region:      []offered{change(well("01:00.0", region, "dfl-port.0"))},
		regiondevel: []offered{change(well("01:00.0", region, "dfl-port.0", "dfl-fme.0"))},
	}
}

// Ids that are missing, invalid, or written in another form. A device without a name is still
// listed.
func TestOfferedByIDs(t *testing.T) {
	as := func(d offered) offered { return d }
	is := func(reason string) func(offered) offered { return func(d offered) offered { return bad(d, reason) } }
	unknown := func(d offered) offered { return poor(d, "unreadable=fme/compat_id") } // the other attributes of the card are readable
	allF := strings.Repeat("f", 32) + "\n"
	for _, tt := range []struct {
		name, board string
		edit        func(root string) error
		want        byMode
	}{
		{"no interface id", "kernel-6.1-one-card", remove(oneCardFME), without(notOffered, as)},
		{"interface id all f", "kernel-6.1-one-card", write(oneCompat, allF), without(notOffered, is("fme-dead"))},
		{"interface id empty", "kernel-6.1-one-card", write(oneCompat, "\n"), without(notOffered, unknown)},
		{"interface id garbage", "kernel-6.1-one-card", write(oneCompat, "../../69528db6eb31577a8c3668f9\n"), without(notOffered, unknown)},
		{"interface id in capitals", "kernel-6.1-one-card", write(oneCompat, "69528DB6EB31577A8C3668F9FAA081F6\n"), pacWith()},
		{"no AFU id", "kernel-6.1-one-card", remove(oneAFU), without(regionPAC, as)},
		{"AFU id all f", "kernel-6.1-one-card", write(oneAFU, allF), without(regionPAC, is("afu-dead"))},
		{"AFU id empty", "kernel-6.1-one-card", write(oneAFU, "\n"), without(regionPAC, is("unreadable=afu_id"))},
		{"AFU id garbage", "kernel-6.1-one-card", write(oneAFU, "d8424dc4/a4a3c413f89e433683f9040\n"), without(regionPAC, is("unreadable=afu_id"))},
		{"AFU id in capitals", "kernel-6.1-one-card", write(oneAFU, "D8424DC4A4A3C413F89E433683F9040B\n"), pacWith()},
		{"one of two AFUs is missing", "dfl-two-ports", remove(secondAFU), byMode{
			single:      []offered{well("0001:3b:00.0", testResource, "dfl-port.9"), well("0001:3b:00.0-p1", testResource, "dfl-port.10")},
			af:          []offered{well("0001:3b:00.0", nlbOnPAC, "dfl-port.9"), well("0001:3b:00.0-p1", notOffered, "dfl-port.10")},
			region:      []offered{well("0001:3b:00.0", regionPAC, "dfl-port.9", "dfl-port.10")},
			regiondevel: []offered{well("0001:3b:00.0", regionPAC, "dfl-port.9", "dfl-port.10", "dfl-fme.0")},
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			root := unfold(t, tt.board)
			if err := tt.edit(root); err != nil {
				t.Fatal(err)
			}
			tt.want.check(t, root, settings(t, ""))
		})
	}
}
