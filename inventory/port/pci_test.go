package port_test

import (
	"os"
	"slices"
	"strings"
	"testing"

	"b-com.com/accelerator-device-plugin/inventory"
	"b-com.com/accelerator-device-plugin/inventory/dfl"
	"b-com.com/accelerator-device-plugin/inventory/port"
	"b-com.com/accelerator-device-plugin/test/compare"
	"b-com.com/accelerator-device-plugin/test/familytest"
	"b-com.com/accelerator-device-plugin/test/must"
)

// TestLink changes the values of the link and of the slot. Each case lists the files that differ from the board, where
// all links run at 8.0 GT/s with 16 lanes.
func TestLink(t *testing.T) {
	gone := dead("pci-gone")
	slow, narrow := withRow("link-speed", "link-speed=8.0", poor), withRow("link-width", "link-width=8", poor)
	for _, tt := range []struct {
		name  string
		files map[string]string
		want  []inventory.Condition
	}{
		{"greatest values", nil, nil},
		{"old kernels", map[string]string{"current_link_speed": "8 GT/s", "max_link_speed": "8 GT/s"}, nil},
		{"slower than both", map[string]string{"max_link_speed": "16.0 GT/s PCIe", "slot/max_link_speed": "32.0 GT/s PCIe"},
			[]inventory.Condition{slow}},
		{"slow slot", map[string]string{"max_link_speed": "64.0 GT/s PCIe"}, nil},
		{"slow slot, slower link", map[string]string{"max_link_speed": "64.0 GT/s PCIe", "current_link_speed": "2.5 GT/s PCIe"},
			[]inventory.Condition{withRow("link-speed", "link-speed=2.5", poor)}},
		{"speed of the slot unknown", map[string]string{"max_link_speed": "16 GT/s", "slot/max_link_speed": "Unknown"},
			[]inventory.Condition{slow}},
		{"slot without speed", map[string]string{"max_link_speed": "16 GT/s", "slot/max_link_speed": absent},
			[]inventory.Condition{slow}},
		{"slot unreadable", map[string]string{"max_link_speed": "16 GT/s", "slot/max_link_speed": directory},
			[]inventory.Condition{withRow("link-speed", "unreadable=slot/max_link_speed", poor), slow}},
		{"slot not valid, not needed", map[string]string{"slot/max_link_speed": "fast"}, nil},
		{"narrow slot", map[string]string{"current_link_width": "8", "slot/max_link_width": "8"}, nil},
		{"narrow link", map[string]string{"current_link_width": "8"}, []inventory.Condition{narrow}},
		{"narrow and slow", map[string]string{"current_link_width": "1", "current_link_speed": "5.0 GT/s PCIe"},
			[]inventory.Condition{withRow("link-speed", "link-speed=5.0", poor), withRow("link-width", "link-width=1", poor)}},
		{"width of the slot unknown", map[string]string{"current_link_width": "8", "slot/max_link_width": "255"},
			[]inventory.Condition{narrow}},
		{"wider than the greatest width", map[string]string{"max_link_width": "8"}, nil},
		{"no answer", map[string]string{"current_link_speed": "Unknown", "current_link_width": "63", "max_link_width": "63"},
			[]inventory.Condition{gone}},
		{"part of the root complex", map[string]string{
			"current_link_speed": "Unknown", "max_link_speed": "Unknown", "current_link_width": "0", "max_link_width": "255",
		}, nil},
		{"part of the root complex, width 0", map[string]string{
			"current_link_speed": "Unknown", "max_link_speed": "Unknown speed", "current_link_width": "0", "max_link_width": "0",
		}, nil},
		{"no link", map[string]string{"current_link_speed": absent, "current_link_width": absent}, nil},
		{"gone by config, link not read", map[string]string{"config": "\xff\xff\xff\xff", "current_link_width": "1"},
			[]inventory.Condition{gone}},
		{"only the vendor all ones", map[string]string{"config": "\xff\xff\xc4\x09"}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t, "dfl")
			for name, content := range tt.files {
				if !strings.HasPrefix(name, "slot/") {
					name = "pci/" + name
				}
				r.put(t, name, content)
			}
			compare.Values(t, "conditions", tt.want, r.read(t).Conditions, ignoreErr)
		})
	}
}

// An unknown link is a condition only if it was known before. A virtual function in a guest doesn't have a physical
// function, so its link is never known.
func TestLinkUnknown(t *testing.T) {
	for _, tt := range []struct{ file, value string }{
		{"pci/current_link_speed", "Unknown\n"}, {"pci/current_link_speed", "Unknown speed\n"}, {"pci/current_link_width", "0\n"},
	} {
		t.Run(tt.file+"="+strings.TrimSpace(tt.value), func(t *testing.T) {
			r := newRig(t, "dfl")
			r.put(t, tt.file, tt.value)
			got := r.read(t)
			compare.Empty(t, "conditions", got.Conditions)
			want := []inventory.HealthFile{{Name: tt.file, Absent: true, Lost: bad, Row: "pci-gone", Reason: "pci-gone"}}
			compare.Values(t, "file", want, filesOf(got, tt.file))
		})
	}
}

// A device on the root bus has neither a slot nor a root port.
func TestRootBus(t *testing.T) {
	host := familytest.Node(t, "kernel-6.1-one-card")
	const up, dir = "/devices/pci0000:00/0000:00:01.0", "/devices/pci0000:00/0000:01:00.0"
	must.Succeed(t, os.Rename(host.Sys+up+"/0000:01:00.0", host.Sys+dir))
	edit(t, host.Sys+"/bus/pci/devices", map[string]string{"0000:01:00.0": linkTo + "../../.." + dir})
	edit(t, host.Sys+"/class/fpga_region", map[string]string{"region0": linkTo + "../.." + dir + "/fpga_region/region0"})
	edit(t, host.Sys+dir, map[string]string{
		"current_link_width": "4\n", "max_link_width": "8\n", "aer_dev_fatal": "TOTAL_ERR_FATAL 0\n",
	})
	r := must.Value(dfl.Family(port.PerPort).Read(host, "0000:01:00.0"))(t)
	compare.Values(t, "conditions", []inventory.Condition{withRow("link-width", "link-width=4", poor)}, r.Units[0].Conditions)
	for _, f := range r.Units[0].Files {
		if strings.HasPrefix(f.Name, "slot/") || strings.HasPrefix(f.Name, "root/") {
			t.Errorf("found file %s, want none: the device is on the root bus", f.Name)
		}
	}
}

// TestCounters reads counts in the kernel's format.
func TestCounters(t *testing.T) {
	for _, tt := range []struct {
		name, file, content string
		want                uint64
		ok                  bool
	}{
		{"among others", "pci/aer_dev_fatal", "DLP 3\nTLP 4\nTOTAL_ERR_FATAL 7\n", 7, true},
		{"first line", "slot/aer_dev_nonfatal", "TOTAL_ERR_NONFATAL 12\nx 1\n", 12, true},
		{"largest", "pci/aer_dev_nonfatal", "TOTAL_ERR_NONFATAL 18446744073709551615", 1<<64 - 1, true},
		{"root port", "root/aer_rootport_total_err_fatal", "5\n", 5, true},
		{"too large", "root/aer_rootport_total_err_fatal", "18446744073709551616\n", 0, false},
		{"the other total", "pci/aer_dev_fatal", "TOTAL_ERR_NONFATAL 7\n", 0, false},
		{"longer label", "pci/aer_dev_fatal", "TOTAL_ERR_FATALITIES 7\n", 0, false},
		{"longer label before it", "pci/aer_dev_fatal", "TOTAL_ERR_FATALITIES 7\nTOTAL_ERR_FATAL 2\n", 2, true},
		{"label without space", "pci/aer_dev_fatal", "TOTAL_ERR_FATAL7\n", 0, false},
		{"no number", "pci/aer_dev_fatal", "TOTAL_ERR_FATAL\n", 0, false},
		{"two numbers", "pci/aer_dev_fatal", "TOTAL_ERR_FATAL 1 2\n", 0, false},
		{"negative", "slot/aer_dev_fatal", "TOTAL_ERR_FATAL -1\n", 0, false},
		{"label where there is none", "root/aer_rootport_total_err_nonfatal", "TOTAL_ERR_NONFATAL 1\n", 0, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t, "opae")
			r.put(t, tt.file, tt.content)
			got := r.read(t)
			i := slices.IndexFunc(got.Counters, func(c inventory.Counter) bool { return c.Name == tt.file })
			switch {
			case (i >= 0) != tt.ok:
				t.Errorf("counters %+v: want %s there %v", got.Counters, tt.file, tt.ok)
			case tt.ok && got.Counters[i].Value != tt.want:
				t.Errorf("counted %d, want %d", got.Counters[i].Value, tt.want)
			case !tt.ok && (len(got.Conditions) != 1 || got.Conditions[0].Reason != "unreadable="+tt.file):
				t.Errorf("conditions %+v, want unreadable=%s", got.Conditions, tt.file)
			}
		})
	}
}

// TestVirtualFunction reads a virtual function's port. The conditions of the FME and of the PCI device come from the
// physical function.
func TestVirtualFunction(t *testing.T) {
	const pf, vf = "/devices/pci0000:00/0000:00:01.0/0000:01:00.0/", "/devices/pci0000:00/0000:00:03.0/0000:03:00.0/"
	for _, tt := range []struct {
		name, file, content string
		want                []inventory.Condition
	}{
		{"physical function is gone", pf + "config", gone, []inventory.Condition{dead("pci-gone")}},
		{"own config reads ff", vf + "config", gone, nil},
		{"own link is unknown", vf + "current_link_speed", "Unknown\n", nil},
		{"FME", pf + "fpga_region/region0/dfl-fme.0/errors/catfatal_errors", "0x400\n",
			[]inventory.Condition{ofRow("fme-fatal=thermal", bad)}},
		{"own port", vf + "fpga_region/region2/dfl-port.1/errors/errors", "0x100000000\n",
			[]inventory.Condition{ofRow("port-mmio-timeout", poor)}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			host := familytest.Node(t, "dfl-vf")
			dir, name := host.Sys+tt.file[:strings.LastIndexByte(tt.file, '/')], tt.file[strings.LastIndexByte(tt.file, '/')+1:]
			edit(t, dir, map[string]string{name: tt.content})
			edit(t, host.Sys+vf, map[string]string{"modalias": "pci:v00008086d000009C5sv00008086sd00000000bc12sc00i00\n"})
			got := must.Value(dfl.Family(port.PerPort).Read(host, "0000:03:00.0"))(t)
			compare.Values(t, "conditions", tt.want, got.Units[0].Conditions)
			compare.Equal(t, "PCI id", "8086:09c5:8086:0000", got.Units[0].PCIID)
		})
	}
}
