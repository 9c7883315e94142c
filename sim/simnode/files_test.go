package simnode_test

import (
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"b-com.com/accelerator-device-plugin/sim/simnode"
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
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// merge returns the entries of all maps.
func merge(parts ...map[string]string) map[string]string {
	all := map[string]string{}
	for _, part := range parts {
		maps.Copy(all, part)
	}
	return all
}

// below returns the entries with dir before their names.
func below(dir string, part map[string]string) map[string]string {
	all := map[string]string{}
	for name, text := range part {
		all[dir+"/"+name] = text
	}
	return all
}

// The expected files of a card, in the formats of the kernel: ports, FME and ids as recorded of Linux
// 6.1, the lines of AER as recorded of an N6000, the link speed as of 6.1 (older kernels write "8 GT/s").
var (
	correctable = "RxErr 0\nBadTLP 0\nBadDLLP 0\nRollover 0\nTimeout 0\nNonFatalErr 0\nCorrIntErr 0\nHeaderOF 0\nTOTAL_ERR_COR 0\n"
	// The arguments are the number of surprise downs, and the severity.
	uncorrectable = "Undefined 0\nDLP 0\nSDES %[1]d\nTLP 0\nFCP 0\nCmpltTO 0\nCmpltAbrt 0\nUnxCmplt 0\nRxOF 0\nMalfTLP 0\nECRC 0\n" +
		"UnsupReq 0\nACSViol 0\nUncorrIntErr 0\nBlockedTLP 0\nAtomicOpBlocked 0\nTLPBlockedErr 0\nTOTAL_ERR_%[2]s %[1]d\n"

	maximum = map[string]string{"max_link_speed": "8.0 GT/s PCIe\n", "max_link_width": "8\n"}
	linkAER = merge(maximum, map[string]string{
		"current_link_speed": "8.0 GT/s PCIe\n", "current_link_width": "8\n",
		"aer_dev_correctable": correctable,
		"aer_dev_fatal":       fmt.Sprintf(uncorrectable, 0, "FATAL"), "aer_dev_nonfatal": fmt.Sprintf(uncorrectable, 0, "NONFATAL"),
	})
	fmeFiles = map[string]string{
		"dev": "246:0\n", "bitstream_id": "0x123000200000185\n", "ports_num": "1\n",
		"driver ->":                                      "../../../../../../../bus/platform/drivers/dfl-fme",
		"dfl-fme-mgr.0/fpga_manager/fpga0/name":          "DFL FME FPGA Manager\n",
		"dfl-fme-mgr.0/fpga_manager/fpga0/state":         "unknown\n",
		"dfl-fme-mgr.0/fpga_manager/fpga0/status":        "",
		"dfl-fme-region.0/fpga_region/region1/compat_id": card.InterfaceID + "\n",
		"dfl-fme-region.0/fpga_region/region1/device ->": "../../../dfl-fme-region.0",
		"errors/catfatal_errors":                         "0x0\n",
		"errors/nonfatal_errors":                         "0x0\n",
		"errors/fme_errors":                              "0x0\n",
		"errors/pcie0_errors":                            "0x0\n",
		"errors/pcie1_errors":                            "0x0\n",
		"errors/first_error":                             "0x0\n",
		"errors/next_error":                              "0x0\n",
		"errors/inject_errors":                           "0x0\n",
		"hwmon/hwmon0/name":                              "dfl_fme_thermal\n",
		"hwmon/hwmon0/temp1_input":                       "47000\n",
		"hwmon/hwmon0/temp1_max":                         "93000\n",
		"hwmon/hwmon0/temp1_max_alarm":                   "0\n",
		"hwmon/hwmon0/temp1_max_policy":                  "0\n",
		"hwmon/hwmon0/temp1_crit":                        "90000\n",
		"hwmon/hwmon0/temp1_crit_alarm":                  "0\n",
		"hwmon/hwmon0/temp1_emergency":                   "95000\n",
		"hwmon/hwmon1/name":                              "dfl_fme_power\n",
		"hwmon/hwmon1/power1_input":                      "50000000\n",
		"hwmon/hwmon1/power1_max":                        "0\n",
		"hwmon/hwmon1/power1_max_alarm":                  "0\n",
		"hwmon/hwmon1/power1_crit":                       "0\n",
		"hwmon/hwmon1/power1_crit_alarm":                 "0\n",
		"hwmon/hwmon1/power1_fpga_limit":                 "0\n",
		"hwmon/hwmon1/power1_xeon_limit":                 "0\n",
		"hwmon/hwmon1/power1_ltr":                        "0\n",
	}
)

func portFiles(number int) map[string]string {
	return map[string]string{
		"dev": fmt.Sprintf("245:%d\n", number), "uevent": fmt.Sprintf("DEVNAME=dfl-port.%d\n", number),
		"id": "0\n", "afu_id": card.AFUID + "\n", "power_state": "0x0\n", "errors/errors": "0x0\n",
		"driver ->": "../../../../../../../bus/platform/drivers/dfl-port",
	}
}

func TestFilesAsInTheKernel(t *testing.T) {
	vf := simnode.Card{Address: "0000:01:00.1", Ports: 1, PhysFn: address, NUMANode: 1, AFUID: card.AFUID}
	d5005 := card
	d5005.Address, d5005.PCIID = "0000:02:00.0", "8086:0b2b:8086:138d"
	n := newNode(t, card, vf, d5005)

	pf := merge(linkAER, map[string]string{
		"vendor": "0x8086\n", "device": "0x09c4\n", "subsystem_vendor": "0x8086\n", "subsystem_device": "0x0000\n",
		"class": "0x120000\n", "numa_node": "-1\n", "modalias": "pci:v00008086d000009C4sv00008086sd00000000bc12sc00i00\n",
		"config": "\x86\x80\xc4\x09\x06\x00\x10\x00\x00\x00\x00\x12\x00\x00\x00\x00" +
			"\x0c\x00\x00\xb0\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00" +
			"\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x86\x80\x00\x00" +
			"\x00\x00\x00\x00\x40\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00",
		"driver ->": "../../../../bus/pci/drivers/dfl-pci", "fpga_region/region0/device ->": "../../../0000:01:00.0",
	}, below("fpga_region/region0/dfl-fme.0", fmeFiles), below("fpga_region/region0/dfl-port.0", portFiles(0)))
	if diff := cmp.Diff(pf, files(t, n.CardDir(address))); diff != "" {
		t.Errorf("card (-want +got):\n%s", diff)
	}

	virtual := merge(maximum, map[string]string{
		"current_link_speed": "Unknown\n", "current_link_width": "0\n",
		"vendor": "0x8086\n", "device": "0x09c5\n", "subsystem_vendor": "0x8086\n", "subsystem_device": "0x0000\n",
		"class": "0x120000\n", "numa_node": "1\n", "modalias": "pci:v00008086d000009C5sv00008086sd00000000bc12sc00i00\n",
		"config": "\xff\xff\xff\xff\x06\x00\x10\x00\x00\x00\x00\x12\x00\x00\x00\x00" +
			"\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00" +
			"\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x86\x80\x00\x00" +
			"\x00\x00\x00\x00\x40\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00",
		"driver ->": "../../../../bus/pci/drivers/dfl-pci", "physfn ->": "../0000:01:00.0",
		"fpga_region/region2/device ->": "../../../0000:01:00.1",
	}, below("fpga_region/region2/dfl-port.1", portFiles(1)))
	if diff := cmp.Diff(virtual, files(t, n.CardDir(vf.Address))); diff != "" {
		t.Errorf("virtual function (-want +got):\n%s", diff)
	}

	other := files(t, n.CardDir(d5005.Address))
	got := other["vendor"] + other["device"] + other["subsystem_vendor"] + other["subsystem_device"] + other["modalias"] + other["config"][:4]
	if want := "0x8086\n0x0b2b\n0x8086\n0x138d\npci:v00008086d00000B2Bsv00008086sd0000138Dbc12sc00i00\n\x86\x80\x2b\x0b"; got != want {
		t.Errorf("ids of the third card: %q, want %q", got, want)
	}

	root := merge(linkAER, map[string]string{
		"aer_rootport_total_err_cor": "0\n", "aer_rootport_total_err_fatal": "0\n", "aer_rootport_total_err_nonfatal": "0\n",
	})
	gotRoot := files(t, filepath.Dir(n.CardDir(address)))
	maps.DeleteFunc(gotRoot, func(name, _ string) bool { return filepath.Dir(name) != "." })
	if diff := cmp.Diff(root, gotRoot); diff != "" {
		t.Errorf("root port (-want +got):\n%s", diff)
	}
}

// Numbers are the lowest free ones of the whole node, and each class link leads to its device.
func TestClassLinks(t *testing.T) {
	second := card
	second.Address = "0000:02:00.0"
	n := newNode(t, card, second)
	for _, err := range []error{n.Unplug(address), n.Plug(card)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	const root = "../../devices/pci0000:00/0000:00:02.0/"
	first, next := root+address+"/fpga_region/region0", root+second.Address+"/fpga_region/region2"
	want := map[string]string{
		"fpga_region/region0 ->": first, "fpga_region/region1 ->": first + "/dfl-fme.0/dfl-fme-region.0/fpga_region/region1",
		"fpga_region/region2 ->": next, "fpga_region/region3 ->": next + "/dfl-fme.1/dfl-fme-region.2/fpga_region/region3",
		"fpga_manager/fpga0 ->": first + "/dfl-fme.0/dfl-fme-mgr.0/fpga_manager/fpga0",
		"fpga_manager/fpga1 ->": next + "/dfl-fme.1/dfl-fme-mgr.1/fpga_manager/fpga1",
		"hwmon/hwmon0 ->":       first + "/dfl-fme.0/hwmon/hwmon0", "hwmon/hwmon1 ->": first + "/dfl-fme.0/hwmon/hwmon1",
		"hwmon/hwmon2 ->": next + "/dfl-fme.1/hwmon/hwmon2", "hwmon/hwmon3 ->": next + "/dfl-fme.1/hwmon/hwmon3",
	}
	got := files(t, n.Sys+"/class")
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("links (-want +got):\n%s", diff)
	}
	for name := range got {
		if _, err := os.Stat(filepath.Join(n.Sys, "class", name[:len(name)-len(" ->")])); err != nil {
			t.Errorf("broken link: %v", err)
		}
	}
}
