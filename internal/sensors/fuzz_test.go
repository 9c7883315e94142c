package sensors_test

import (
	"errors"
	"math"
	"os"
	"strconv"
	"testing"
	"unicode/utf8"

	"b-com.com/accelerator-device-plugin/internal/sensors"
	"b-com.com/accelerator-device-plugin/test/must"
)

func FuzzParse(f *testing.F) {
	for _, text := range []string{"43500", "-1", "0x7f", "0", "9223372036854775807", "1e3", ""} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for _, kind := range []sensors.Kind{sensors.Temperature, sensors.Power, sensors.Voltage, sensors.Current} {
			for name, parse := range map[string]func(sensors.Kind, string) (float64, error){"hwmon": sensors.ParseHWMon, "opae": sensors.ParseOPAE} {
				v, err := parse(kind, text)
				switch {
				case err != nil && !errors.Is(err, sensors.ErrValue):
					t.Errorf("%s %s %q: error %v, want ErrValue", name, kind, text, err)
				case math.Abs(v) > 2000 || math.IsNaN(v):
					t.Errorf("%s %s %q: %g", name, kind, text, v)
				}
			}
		}
	})
}

// FuzzFind reads a device with two sensors whose name and labels are random.
func FuzzFind(f *testing.F) {
	f.Add("bmc", "Board Power", "temp1", []byte("1"))
	f.Add("a-2", "x\x1b", "x\x1b", []byte("1\x00\n"))
	f.Add("", "\xff", "temp2", []byte(""))
	host := node(f, chip(0, "name", "x", "temp1_input", "1", "temp2_input", "2"))
	dir := host.Sys + "/class/hwmon/hwmon0/"
	f.Fuzz(func(t *testing.T, name, first, second string, value []byte) {
		for file, text := range map[string]string{"name": name, "temp1_label": first, "temp2_label": second, "temp1_input": string(value)} {
			must.Succeed(t, os.WriteFile(dir+file, []byte(text), 0o600))
		}
		all, _ := sensors.Find(host, card)
		if len(all) != 2 || all[0].Name == all[1].Name {
			t.Fatalf("sensors %v, want two with different names", all)
		}
		for _, s := range all {
			for _, text := range []string{s.Chip, s.Name} {
				if text == "" || len(text) > 64 || !utf8.ValidString(text) {
					t.Errorf("found name %q, want short, printable UTF-8", text)
				}
				for _, r := range text {
					if !strconv.IsPrint(r) {
						t.Errorf("found name %q, want printable characters", text)
					}
				}
			}
			_, _ = s.Read()
		}
	})
}
