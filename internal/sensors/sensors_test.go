package sensors_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"b-com.com/accelerator-device-plugin/internal/sensors"
	"b-com.com/accelerator-device-plugin/internal/sysfs"
	"b-com.com/accelerator-device-plugin/test/board"
	"b-com.com/accelerator-device-plugin/test/compare"
	"b-com.com/accelerator-device-plugin/test/must"
	"b-com.com/accelerator-device-plugin/test/sysfstest"
)

// node unfolds the text of a board and returns its host.
func node(t testing.TB, text string) sysfs.Host {
	t.Helper()
	root := t.TempDir()
	must.Succeed(t, board.UnfoldText(root, []byte(text)))
	return sysfs.Host{Sys: root + "/sys", Dev: root + "/dev", Simulated: true}
}

const card = "0000:01:00.0"

// chip returns the text of a hwmon device of the card, with its link in the class. files alternates names and values.
func chip(number int, files ...string) string {
	dir := fmt.Sprintf("devices/pci0000:00/0000:00:01.0/%s/hwmon/hwmon%d", card, number)
	text := fmt.Sprintf("-- sys/class/hwmon/hwmon%d -> ../../%s --\n", number, dir)
	for i := 0; i < len(files); i += 2 {
		text += fmt.Sprintf("-- sys/%s/%s --\n%s\n", dir, files[i], files[i+1])
	}
	return text
}

// print returns the readings of sensors and their summary, a line each: chip|kind|name|value|max|crit.
func print(t testing.TB, all []sensors.Sensor) string {
	t.Helper()
	var b strings.Builder
	line := func(r sensors.Reading, value string) {
		fmt.Fprintf(&b, "%s|%s|%s|%s|%g|%g\n", r.Chip, r.Kind, r.Name, value, r.Max, r.Crit)
	}
	var readings []sensors.Reading
	for _, s := range all {
		r := sensors.Reading{Chip: s.Chip, Name: s.Name, Kind: s.Kind}
		var err error
		r.Limits, err = s.Limits()
		must.Succeed(t, err)
		r.Value, err = s.Read()
		switch {
		case errors.Is(err, sensors.ErrNoValue):
			line(r, "none")
		case err != nil:
			line(r, err.Error())
		default:
			line(r, fmt.Sprint(r.Value))
			readings = append(readings, r)
		}
	}
	for _, r := range sensors.Summarize(readings) {
		r.Name += " of " + r.Of
		line(r, fmt.Sprint(r.Value))
	}
	return b.String()
}

// TestRecorded reads boards that were recorded. What each wants was compared by hand with the output of fpgainfo.
func TestRecorded(t *testing.T) {
	for name, address := range map[string]string{"n6001": card, "d5005": "0000:05:00.0"} {
		host := node(t, string(must.Value(os.ReadFile("testdata/"+name+".txtar"))(t)))
		all := must.Value(sensors.Find(host, address))(t)
		want := must.Value(os.ReadFile(filepath.Dir(host.Sys) + "/want"))(t)
		compare.Values(t, name+": sensors", strings.Split(string(want), "\n"), strings.Split(print(t, all), "\n"))

		// Of the others, the summary needs none.
		_, whole, _ := strings.Cut(print(t, all), "\n|")
		_, part, _ := strings.Cut(print(t, sensors.ForSummary(all)), "\n|")
		compare.Equal(t, name+": summary", whole, part)
	}
}

// TestBoards finds the sensors of the boards of other tests.
func TestBoards(t *testing.T) {
	for _, test := range []struct{ name, address, want string }{
		{"kernel-6.1-one-card", card, `
dfl_fme_power|power|power1|50|0|0
dfl_fme_thermal|temperature|temp1|47|93|90
|temperature|die of temp1|47|93|90
|temperature|hottest of temp1|47|93|90
|power|board of power1|50|0|0
`},
		{"opae-all-files", "0000:83:00.0", `
power_mgmt|power|consumed|25|60|70
thermal_mgmt|temperature|temperature|41|90|93
|temperature|die of temperature|41|90|93
|temperature|hottest of temperature|41|90|93
|power|board of consumed|25|60|70
`},
		{"kernel-6.1-no-driver", card, "\n"},
		{"kernel-6.1-one-card", "0000:00:01.0", "\n"},
	} {
		root := t.TempDir()
		must.Succeed(t, board.Unfold(root, "../../testdata/sysfs/"+test.name+".txtar"))
		all := must.Value(sensors.Find(sysfs.Host{Sys: root + "/sys"}, test.address))(t)
		compare.Equal(t, test.name+": sensors", test.want, "\n"+print(t, all))
	}
}

func TestFind(t *testing.T) {
	long := strings.Repeat("x", 65)
	for _, test := range []struct{ name, tree, want, err string }{
		{"no class", "", "", ""},
		{"device of another card", strings.ReplaceAll(chip(0, "name", "nvme", "temp1_input", "1"), card, "0000:02:00.0"), "", ""},
		{"device behind a switch of the card", strings.ReplaceAll(chip(0, "name", "nic", "temp1_input", "1"), card, card+"/0000:02:00.0"), "", ""},
		{"link to nothing", "-- sys/class/hwmon/hwmon0 -> ../../devices/" + card + "/hwmon/hwmon0 --\n", "", ""},
		{"two chips of a name", chip(3, "name", "bmc", "temp1_input", "3000") + chip(10, "name", "bmc", "temp1_input", "10000"),
			"bmc|temp1 bmc-2|temp1", ""},
		{"two labels", chip(0, "name", "bmc", "temp1_input", "1", "temp1_label", "QSFP", "temp2_input", "2", "temp2_label", "QSFP",
			"in0_input", "3", "in0_label", "QSFP"), "bmc|temp1 bmc|temp2 bmc|QSFP", ""},
		{"label of another channel", chip(0, "name", "bmc", "temp1_input", "1", "temp2_input", "2", "temp2_label", "temp1"), "bmc|temp1 bmc|temp2", ""},
		{"bad labels", chip(0, "name", "bmc", "temp1_input", "1", "temp1_label", long, "temp2_input", "2", "temp2_label", "\x1b[31mred",
			"temp3_input", "3", "temp3_label", "\xff\xfe", "temp4_input", "4", "temp4_label", "", "temp5_input", "5", "temp5_label", "a\nb",
			"temp6_input", "6", "temp6_label", " x", "temp7_input", "7", "temp7_label", "\u202eabc", "temp8_input", "8", "temp8_label", "°\"{}"),
			`bmc|temp1 bmc|temp2 bmc|temp3 bmc|temp4 bmc|temp5 bmc|temp6 bmc|temp7 bmc|°"{}`, ""},
		{"bad names of chips", chip(0, "name", "a-2", "temp1_input", "1") + chip(1, "temp1_input", "1") + chip(2, "name", "\x1b", "temp1_input", "1"),
			"hwmon|temp1 hwmon-2|temp1 hwmon-3|temp1", ""},
		{"other files", chip(0, "name", "bmc", "temp1_max", "1", "fan1_input", "1", "temp_input", "1", "tempx_input", "1", "temp1x_input", "1",
			"pwm1", "1", "humidity1_input", "1", "power1_average", "1"), "", ""},
		{"too long a label", chip(0, "name", "bmc", "temp1_input", "1", "temp1_label", strings.Repeat("x", 5000)), "bmc|temp1", "temp1_label: value is longer"},
	} {
		all, err := sensors.Find(node(t, test.tree), card)
		compare.Outcome(t, test.name, test.err, err)
		var got []string
		for _, s := range all {
			got = append(got, s.Chip+"|"+s.Name)
		}
		compare.Equal(t, test.name, test.want, strings.Join(got, " "))
	}
}

// TestFindMany checks that a device cannot make the daemon read without end.
func TestFindMany(t *testing.T) {
	files := []string{"name", "bmc"}
	for i := range 1000 {
		files = append(files, fmt.Sprintf("temp%d_input", i), "1")
	}
	all, err := sensors.Find(node(t, chip(0, files...)), card)
	compare.Equal(t, "sensors", 256, len(all))
	compare.Error(t, "Find", "found 1000 sensors, want at most 256", err)

	var tree string
	for i := range 20 {
		tree += chip(i, "name", "bmc", "temp1_input", "1")
	}
	all, err = sensors.Find(node(t, tree), card)
	compare.Equal(t, "sensors", 16, len(all))
	compare.Error(t, "Find", "found 20 devices with sensors, want at most 16", err)
}

// TestRead reads values that no card has, and errors of drivers.
func TestRead(t *testing.T) {
	for _, test := range []struct {
		chip, file, value string
		want              float64
		is                error
		text              string // part of the error
	}{
		{"bmc", "temp1", "43500", 43.5, nil, ""},
		{"bmc", "temp1", "-12500", -12.5, nil, ""},
		{"bmc", "in1", "-12000", -12, nil, ""},
		{"bmc", "temp1", "", 0, sensors.ErrNoValue, "temp1_input"},
		{"bmc", "temp1", "garbage", 0, sensors.ErrValue, `temp1_input: found "garbage", want a number`},
		{"bmc", "temp1", "1 ", 0, sensors.ErrValue, `found "1 "`},
		{"bmc", "temp1", "4e4", 0, sensors.ErrValue, "want a number"},
		{"bmc", "temp1", "NaN", 0, sensors.ErrValue, "want a number"},
		{"bmc", "temp1", "9223372036854775808", 0, sensors.ErrValue, "want a number"},
		{"bmc", "temp1", "2147483647500", 0, sensors.ErrValue, "found 2.1474836475e+09 °C, want -100 to 300"}, // ones in a register of a BMC
		{"bmc", "power1", "-1", 0, sensors.ErrValue, "want 0 to 2000"},
		{"bmc", "temp1", strings.Repeat("1", 5000), 0, nil, "longer than"},
		{"dfl_fme_thermal", "temp1", "127000", 0, sensors.ErrValue, "does not answer"},
		{"dfl_fme_thermal", "temp1", "126000", 126, nil, ""},
		{"dfl_fme_thermal", "temp1", "0", 0, sensors.ErrNoValue, "temp1_input"},
		{"bmc", "temp1", "0", 0, nil, ""},
		{"bmc", "temp1", "127000", 127, nil, ""},
		{"dfl_fme_power", "power1", "262143000000", 0, sensors.ErrValue, "found 262143 W"},
		{"n6000bmc_hwmon", "power1", "50909", 50.909, nil, ""},
		{"n6000bmc_hwmon", "power1", "50909000", 50.909, nil, ""},
		{"n3000bmc_hwmon", "power1", "50909", 0.050909, nil, ""},
	} {
		all := must.Value(sensors.Find(node(t, chip(0, "name", test.chip, test.file+"_input", test.value)), card))(t)
		got, err := all[0].Read()
		what := fmt.Sprintf("%s %.20q", test.chip, test.value)
		compare.Outcome(t, what, test.text, err)
		if test.is != nil {
			compare.ErrorIs(t, what, test.is, err)
		}
		compare.Equal(t, what, test.want, got)
	}
}

func TestErrorsOfDrivers(t *testing.T) {
	host := node(t, chip(0, "name", "bmc", "temp1_input", "1000", "temp1_max", "90000", "temp1_crit", "95000"))
	s := must.Value(sensors.Find(host, card))(t)[0]
	for _, test := range []struct {
		errno         syscall.Errno
		read, limited error // errors of Read and Limits
	}{
		{syscall.EIO, syscall.EIO, syscall.EIO},
		{syscall.ETIMEDOUT, syscall.ETIMEDOUT, syscall.ETIMEDOUT},
		{syscall.ENODEV, syscall.ENODEV, syscall.ENODEV},
		{syscall.ENODATA, sensors.ErrNoValue, nil},
		{syscall.EOPNOTSUPP, syscall.EOPNOTSUPP, nil},
	} {
		t.Run(test.errno.Error(), func(t *testing.T) {
			const second = 1 // the first access is the open, the second the read
			var err error
			sysfstest.Fail(t, second, test.errno, func() { _, err = s.Read() })
			compare.ErrorIs(t, "Read", test.read, err)
			var limits sensors.Limits
			sysfstest.Fail(t, second, test.errno, func() { limits, err = s.Limits() })
			if test.limited != nil {
				compare.ErrorIs(t, "Limits", test.limited, err)
				return
			}
			compare.NoError(t, "Limits", err)
			compare.Equal(t, "limits", sensors.Limits{Crit: 95}, limits)
		})
	}
	must.Succeed(t, os.RemoveAll(host.Sys))
	_, err := s.Read()
	compare.ErrorIs(t, "a card that has left", fs.ErrNotExist, err)
}

// TestShortage refuses each access of Find: a card must not lose sensors without an error.
func TestShortage(t *testing.T) {
	root := t.TempDir()
	must.Succeed(t, board.Unfold(root, "../../testdata/sysfs/kernel-6.1-one-card.txtar"))
	find := func() ([]sensors.Sensor, error) { return sensors.Find(sysfs.Host{Sys: root + "/sys"}, card) }
	all := must.Value(find())(t)
	accesses := sysfstest.Refuse(t, -1, func() { _, _ = find() })
	if accesses < 8 {
		t.Fatalf("%d accesses, want more", accesses)
	}
	for n := range accesses {
		var got []sensors.Sensor
		var err error
		sysfstest.Refuse(t, n, func() { got, err = find() })
		if err == nil && len(got) != len(all) {
			t.Errorf("access %d: %d sensors and no error, want %d", n, len(got), len(all))
		}
	}
}

func TestSummarize(t *testing.T) {
	temperature := func(chip, name string, value, most, crit float64) sensors.Reading {
		return sensors.Reading{Chip: chip, Name: name, Kind: sensors.Temperature, Value: value, Limits: sensors.Limits{Max: most, Crit: crit}}
	}
	for _, test := range []struct {
		name     string
		readings []sensors.Reading
		want     string
	}{
		{"none", nil, ""},
		{"a regulator is hotter than the die", []sensors.Reading{temperature("bmc", "VR", 99, 118, 0), temperature("bmc", "FPGA Die Temperature", 88, 90, 0)},
			"die=88 of FPGA Die Temperature, hottest=88 of FPGA Die Temperature"},
		{"only some with limits", []sensors.Reading{temperature("bmc", "VR", 99, 0, 0), temperature("bmc", "FPGA 1 Temperature", 50, 0, 100),
			temperature("bmc", "Board", 20, 80, 0)}, "die=50 of FPGA 1 Temperature, hottest=20 of Board"},
		{"no limits", []sensors.Reading{temperature("bmc", "A", 20, 0, 0), temperature("bmc", "B", 30, 0, 0)}, "hottest=30 of B"},
		{"critical limits", []sensors.Reading{temperature("bmc", "A", 20, 0, 30), temperature("bmc", "B", 30, 0, 90)}, "hottest=20 of A"},
		{"the board's controller is better than the FME", []sensors.Reading{temperature("dfl_fme_thermal", "temp1", 0, 0, 0),
			temperature("bmc", "FPGA FABRIC Digital Temperature #1", 48, 90, 0), temperature("bmc", "FPGA FABRIC Remote Digital Temperature#2", 49, 90, 0),
			temperature("bmc", "FPGA Core Voltage Phase 0 VR Temperature", 52, 0, 0)},
			"die=49 of FPGA FABRIC Remote Digital Temperature#2, hottest=49 of FPGA FABRIC Remote Digital Temperature#2"},
		{"power", []sensors.Reading{{Chip: "dfl_fme_power", Name: "power1", Kind: sensors.Power, Value: 1}, {Chip: "bmc", Name: "Board Power", Kind: sensors.Power, Value: 2},
			{Chip: "bmc", Name: "Other", Kind: sensors.Power, Value: 3}}, "board=2 of Board Power"},
	} {
		var got []string
		for _, r := range sensors.Summarize(test.readings) {
			compare.Equal(t, test.name+": chip", "", r.Chip)
			got = append(got, fmt.Sprintf("%s=%g of %s", r.Name, r.Value, r.Of))
		}
		compare.Equal(t, test.name, test.want, strings.Join(got, ", "))
	}
}
