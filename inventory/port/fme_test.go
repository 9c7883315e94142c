package port_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"b-com.com/accelerator-device-plugin/inventory"
	"b-com.com/accelerator-device-plugin/inventory/dfl"
	"b-com.com/accelerator-device-plugin/inventory/port"
	"b-com.com/accelerator-device-plugin/test/compare"
	"b-com.com/accelerator-device-plugin/test/familytest"
	"b-com.com/accelerator-device-plugin/test/must"
)

// filesOf returns p's health files whose names start with part.
func filesOf(p inventory.Unit, part string) []inventory.HealthFile {
	var files []inventory.HealthFile
	for _, f := range p.Files {
		if strings.HasPrefix(f.Name, part) {
			files = append(files, f)
		}
	}
	return files
}

// The only condition of an FME without a driver is that it doesn't have one. Its other files aren't read.
func TestFMEDriver(t *testing.T) {
	for _, family := range []string{"dfl", "opae"} {
		t.Run(family, func(t *testing.T) {
			r := newRig(t, family)
			driven := r.swap(t, "fme/uevent", "MAJOR=246\n")
			r.put(t, "fme/errors/catfatal_errors", "0x400\n")
			there := inventory.HealthFile{Name: "fme/driver", Lost: bad, Row: "fme-unbound", Reason: "fme-unbound"}
			got := r.read(t)
			compare.Values(t, "files", []inventory.HealthFile{there}, filesOf(got, "fme/"))
			compare.Values(t, "conditions", []inventory.Condition{ofRow("fme-unbound", bad)}, got.Conditions)
			if got.InterfaceIDKnown || got.Parent == "" {
				t.Errorf("%+v: want no interface id, and a parent", got)
			}
			r.put(t, "fme/uevent", driven)
			compare.Values(t, "bound again: conditions", []inventory.Condition{ofRow("fme-fatal=thermal", bad)}, r.read(t).Conditions)
			r.put(t, "fme", absent)
			there.Absent = true // so that it counts as lost if there was one before
			compare.Values(t, "no FME: files", []inventory.HealthFile{there}, filesOf(r.read(t), "fme/"))
		})
	}
}

// An FME that doesn't respond gets a single condition for that, no matter which files show it, in addition to the
// conditions from other files. Its alarms aren't read, because they would all be set.
func TestDeadFME(t *testing.T) {
	r := newRig(t, "dfl")
	for _, name := range []string{"catfatal_errors", "nonfatal_errors", "pcie0_errors", "pcie1_errors"} {
		r.put(t, "fme/errors/"+name, "0xffffffffffffffff\n")
	}
	r.put(t, "fme/errors/fme_errors", "0x1\n")
	r.put(t, "fme/compat_id", strings.ToUpper(allF)+"\n")
	r.put(t, "fme/thermal/temp1_crit_alarm", "1\n")
	r.put(t, "fme/manager", "write error\n")
	got := r.read(t)
	want := []inventory.Condition{ofRow("programming-failed", poor), ofRow("fme-error=fabric", poor), dead("fme-dead")}
	compare.Values(t, "conditions", want, got.Conditions)
	if files := filesOf(got, "fme/hwmon"); files != nil || got.InterfaceIDKnown {
		t.Errorf("files %+v, interface id known %v; want no alarms and no interface id", files, got.InterfaceIDKnown)
	}
}

// While the driver programs a port, it holds a lock that reads of some of the FME's files would wait for. These files
// aren't read during that time. The test replaces them with directories, which would cause conditions if they were
// read.
func TestLockedFilesAreSkippedWhileProgramming(t *testing.T) {
	for family, errors := range map[string]string{"dfl": "fme/errors/fme_errors", "opae": "fme/errors/fme-errors/errors"} {
		for _, state := range []string{"firmware request", "parse header", "write init", "write", "write complete"} {
			t.Run(family+"/"+state, func(t *testing.T) {
				r := newRig(t, family)
				locked := []string{errors, "fme/errors/pcie0_errors", "fme/errors/pcie1_errors"}
				for _, name := range locked {
					r.put(t, name, directory)
				}
				r.put(t, "fme/errors/catfatal_errors", "0x400\n")
				r.put(t, "fme/manager", state+"\n")
				got := r.read(t)
				compare.Values(t, "conditions", []inventory.Condition{ofRow("fme-fatal=thermal", bad)}, got.Conditions)
				for _, name := range locked {
					compare.Empty(t, "files, which are locked", filesOf(got, name))
				}
			})
		}
	}
}

func TestHWMon(t *testing.T) {
	const thermal, power = "fme/thermal", "fme/power"
	file := func(isAbsent bool) []inventory.HealthFile {
		return []inventory.HealthFile{{Name: "fme/hwmon", Absent: isAbsent, Lost: bad, Row: "alarm-crit"}}
	}
	for _, tt := range []struct {
		name   string
		edit   map[string]string
		absent bool
		want   []inventory.Condition
	}{
		{"quiet", nil, false, nil},
		{"none", map[string]string{thermal: absent, power: absent}, true, nil},
		{"one of two", map[string]string{power: absent}, false, nil},
		{"all set", map[string]string{
			thermal + "/temp1_crit_alarm": "1\n", thermal + "/temp1_max_alarm": "1\n",
			power + "/power1_crit_alarm": "1\n", power + "/power1_max_alarm": "1\n",
		}, false, []inventory.Condition{
			withRow("alarm-crit", "alarm-crit=temp1", bad), withRow("alarm-max", "alarm-max=temp1", poor),
			withRow("alarm-crit", "alarm-crit=power1", bad), withRow("alarm-max", "alarm-max=power1", poor),
		}},
		{"the same sensor twice", map[string]string{thermal + "/temp1_crit_alarm": "1\n", power + "/temp1_crit_alarm": "1\n"},
			false, []inventory.Condition{withRow("alarm-crit", "alarm-crit=temp1", bad)}},
		{"alarms of other kinds", map[string]string{thermal + "/temp1_alarm": "1\n", thermal + "/temp1_min_alarm": "1\n",
			thermal + "/_crit_alarm": "1\n"}, false, nil},
		{"no such value", map[string]string{thermal + "/temp1_max_alarm": "2\n"}, false,
			[]inventory.Condition{withRow("alarm-max", "unreadable=fme/hwmon/temp1_max_alarm", poor)}},
		{"rubbish", map[string]string{thermal + "/temp1_crit_alarm": "on\n"}, false,
			[]inventory.Condition{withRow("alarm-crit", "unreadable=fme/hwmon/temp1_crit_alarm", bad)}},
		{"directory", map[string]string{power + "/power1_crit_alarm": directory}, false,
			[]inventory.Condition{withRow("alarm-crit", "unreadable=fme/hwmon/power1_crit_alarm", bad)}},
		{"hwmon is a file", map[string]string{"fme/hwmon": "x"}, false,
			[]inventory.Condition{withRow("alarm-crit", "unreadable=fme/hwmon", bad)}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t, "dfl")
			for name, content := range tt.edit {
				r.put(t, name, content)
			}
			got := r.read(t)
			compare.Values(t, "conditions", tt.want, got.Conditions, ignoreErr)
			compare.Values(t, "files", file(tt.absent), filesOf(got, "fme/hwmon"))
		})
	}
}

// If a hwmon device's directory can't be listed, that is a condition, because any alarm could be set.
func TestHWMonUnlistable(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("root may list every directory")
	}
	r := newRig(t, "dfl")
	must.Succeed(t, os.Chmod(r.path("fme/thermal"), 0))
	t.Cleanup(func() { os.Chmod(r.path("fme/thermal"), 0o755) }) // so that it can be removed
	want := []inventory.Condition{withRow("alarm-crit", "unreadable=fme/hwmon", bad)}
	compare.Values(t, "conditions", want, r.read(t).Conditions, ignoreErr)
}

// The manager can be in either of two places, or missing.
func TestManager(t *testing.T) {
	const usual, older = "fme/dfl-fme-mgr.0/fpga_manager/fpga0/state", "fme/fpga_manager/fpga7/state"
	failed := []inventory.Condition{ofRow("programming-failed", poor)}
	for _, tt := range []struct {
		name   string
		edit   map[string]string
		absent bool
		want   []inventory.Condition
	}{
		{"none", map[string]string{"fme/dfl-fme-mgr.0": absent}, true, nil},
		{"without state", map[string]string{usual: absent}, true, nil},
		{"older place", map[string]string{usual: absent, older: "write error\n"}, false, failed},
		{"both", map[string]string{usual: "write error\n", older: "operating\n"}, false, failed},
		{"place is a file", map[string]string{"fme/dfl-fme-mgr.0/fpga_manager": "x"}, false,
			[]inventory.Condition{withRow("programming-failed", "unreadable=fme/manager", poor)}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t, "dfl")
			r.put(t, "fme/fpga_manager", directory)
			r.put(t, "fme/fpga_manager/fpga7", directory)
			for name, content := range tt.edit {
				r.put(t, name, content)
			}
			got := r.read(t)
			compare.Values(t, "conditions", tt.want, got.Conditions, ignoreErr)
			file := []inventory.HealthFile{{Name: "fme/manager", Absent: tt.absent, Lost: poor, Row: "programming-failed"}}
			compare.Values(t, "files", file, filesOf(got, "fme/manager"))
		})
	}
}

// For each of the card's ports, even an unbound one, the card's conditions come after the port's own. Each port gets
// its own copy.
func TestSharedFindings(t *testing.T) {
	host := familytest.Node(t, "dfl-two-ports")
	const card = "/devices/pci0001:3a/0001:3a:00.0/0001:3b:00.0"
	region := host.Sys + card + "/fpga_region/region0/"
	edit(t, region+"dfl-port.9", map[string]string{"driver": absent, "uevent": "MAJOR=245\n"})
	edit(t, region+"dfl-port.10", map[string]string{"errors/errors": "0x1\n"})
	edit(t, region+"dfl-fme.0", map[string]string{"errors": directory})
	edit(t, region+"dfl-fme.0/errors", map[string]string{"nonfatal_errors": "0x8\n"})
	edit(t, host.Sys+card, map[string]string{"config": gone})
	r, err := dfl.Family(port.PerPort).Read(host, "0001:3b:00.0")
	if err != nil || len(r.Units) != 2 {
		t.Fatalf("reading %+v, error %v", r, err)
	}
	shared := []inventory.Condition{ofRow("fme-nonfatal=port-fatal", poor), dead("pci-gone")}
	for i, own := range []inventory.Condition{
		{Reason: "driver-unbound", Health: bad},
		ofRow("port-tx=ch0-overflow", poor),
	} {
		compare.Values(t, fmt.Sprintf("%s: conditions", r.Units[i].Name), append([]inventory.Condition{own}, shared...), r.Units[i].Conditions)
		if len(filesOf(r.Units[i], "pci/")) == 0 || len(filesOf(r.Units[i], "fme/")) == 0 {
			t.Errorf("%s: files %+v, want also those of the card", r.Units[i].Name, r.Units[i].Files)
		}
		clear(r.Units[i].Conditions) // the next port has its own copy
	}
}

// The bitstream ID is an attribute in the driver's format. An invalid value, or one from a card that doesn't respond,
// doesn't become an attribute, and says nothing about the card's health.
func TestBitstreamID(t *testing.T) {
	for _, family := range []string{"dfl", "opae"} {
		for _, tt := range []struct{ name, file, want string }{
			{"of an N6001", "0x501020222df1b7a\n", "0x501020222df1b7a"},
			{"in capitals", "0x501020222DF1B7A\n", "0x501020222df1b7a"},
			{"padded", "0x0000000000000012\n", "0x12"},
			{"all ones", "0xffffffffffffffff\n", ""},
			{"more than 64 bits", "0x10000000000000000\n", ""},
			{"garbage", "\x1b[2J\n", ""},
			{"empty", "\n", ""},
			{"missing", absent, ""},
			{"unreadable", directory, ""},
		} {
			t.Run(family+"/"+tt.name, func(t *testing.T) {
				r := newRig(t, family)
				r.put(t, "fme/bitstream_id", tt.file)
				got := r.read(t)
				compare.Equal(t, "bitstream id", tt.want, got.Attributes["bitstreamId"])
				compare.Values(t, "conditions", []inventory.Condition(nil), got.Conditions)
			})
		}
	}
}
