package simnode_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"b-com.com/accelerator-device-plugin/test/compare"
	"b-com.com/accelerator-device-plugin/test/must"
)

// files returns the files below dir with their contents, and links with their targets.
func files(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, _ := filepath.Rel(dir, path)
		if d.Type()&fs.ModeSymlink != 0 {
			target, err := os.Readlink(path)
			all[name+" ->"] = target
			return err
		}
		text, err := os.ReadFile(path)
		all[name] = string(text)
		return err
	})
	must.Succeed(t, err)
	return all
}

// Numbers are the lowest free ones of the whole node, and each class link leads to its device.
func TestClassLinks(t *testing.T) {
	second := card
	second.Address = "0000:02:00.0"
	n := newNode(t, card, second)
	for _, err := range []error{n.Unplug(address), n.Plug(card)} {
		must.Succeed(t, err)
	}
	const root = "../../devices/pci0000:00/0000:00:02.0/"
	first, next := root+address+"/fpga_region/region0", root+second.Address+"/fpga_region/region2"
	want := map[string]string{
		"fpga_region/region0 ->": first, "fpga_region/region1 ->": first + "/dfl-fme.0/dfl-fme-region.0/fpga_region/region1",
		"fpga_region/region2 ->": next, "fpga_region/region3 ->": next + "/dfl-fme.1/dfl-fme-region.2/fpga_region/region3",
		"fpga_manager/fpga0 ->": first + "/dfl-fme.0/dfl-fme-mgr.0/fpga_manager/fpga0",
		"fpga_manager/fpga1 ->": next + "/dfl-fme.1/dfl-fme-mgr.1/fpga_manager/fpga1",
		"hwmon/hwmon0 ->":       first + "/dfl-fme.0/hwmon/hwmon0", "hwmon/hwmon1 ->": first + "/dfl-fme.0/hwmon/hwmon1",
		"hwmon/hwmon2 ->": first + "/dfl-fme.0/dfl_dev.0/n6000bmc-hwmon.0.auto/hwmon/hwmon2",
		"hwmon/hwmon3 ->": next + "/dfl-fme.1/hwmon/hwmon3", "hwmon/hwmon4 ->": next + "/dfl-fme.1/hwmon/hwmon4",
		"hwmon/hwmon5 ->": next + "/dfl-fme.1/dfl_dev.1/n6000bmc-hwmon.1.auto/hwmon/hwmon5",
	}
	got := files(t, n.Sys+"/class")
	compare.Values(t, "links", want, got)
	for name := range got {
		compare.NoError(t, "broken link", compare.ErrorOf(os.Stat(filepath.Join(n.Sys, "class", name[:len(name)-len(" ->")]))))
	}
}
