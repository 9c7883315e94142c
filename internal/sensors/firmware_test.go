package sensors_test

import (
	"regexp"
	"strings"
	"testing"

	"b-com.com/accelerator-device-plugin/internal/sensors"
	"b-com.com/accelerator-device-plugin/test/compare"
	"b-com.com/accelerator-device-plugin/test/must"
)

// TestFirmware reads the controllers of boards whose trees were recorded by the authors of opae-sdk.
func TestFirmware(t *testing.T) {
	const (
		pci   = "devices/pci0000:00/0000:00:01.0/" + card
		n6001 = pci + "/fpga_region/region0/dfl-fme.0/dfl_dev.3"
		n3000 = pci + "/fpga_region/region0/dfl-fme.0/dfl_dev.6/subdev_spi_altera.3.auto/spi_master/spi4/spi4.0"
		image = n6001 + "/n6000bmc-sec-update.2.auto/control/fpga_boot_image"
		fme   = "-- sys/class/hwmon/hwmon0 -> ../../" + pci + "/fpga_region/region0/dfl-fme.0/hwmon/hwmon0 --\n" +
			"-- sys/" + pci + "/fpga_region/region0/dfl-fme.0/hwmon/hwmon0/name --\ndfl_fme_thermal\n"
	)
	hwmon := func(dir string) string {
		return "-- sys/class/hwmon/hwmon1 -> ../../" + dir + " --\n-- sys/" + dir + "/name --\nbmc\n"
	}
	file := func(path, value string) string { return "-- sys/" + path + " --\n" + value + "\n" }
	bmc := fme + hwmon(n6001+"/n6000bmc-hwmon.1.auto/hwmon/hwmon1") + file(n6001+"/bmc_version", "0x10400")
	good := bmc + file(n6001+"/bmcfw_version", "0x10401")
	for _, tt := range []struct {
		name, tree string
		want       sensors.Firmware
		failed     string // the file that an error names; "": none
	}{
		{"N6001", good + file(image, "fpga_user1"), sensors.Firmware{BMC: "1.4.1", Build: "1.4.0", Image: "fpga_user1"}, ""},
		{"N3000", fme + hwmon(n3000+"/n3000bmc-hwmon.6.auto/hwmon/hwmon1") + file(n3000+"/bmc_version", "0x44020006") + file(n3000+"/bmcfw_version", "0x44020014"),
			sensors.Firmware{BMC: "D.2.0.20", Build: "D.2.0.6"}, ""},
		{"without firmware", good + file(n6001+"/bmcfw_version", "0xffffffff"), sensors.Firmware{Build: "1.4.0"}, ""},
		{"only an FME", fme, sensors.Firmware{}, ""},
		{"no chips", "-- sys/class/hwmon/ --\n", sensors.Firmware{}, ""},
		{"a file that cannot be read", bmc + "-- sys/" + n6001 + "/bmcfw_version/ --\n", sensors.Firmware{Build: "1.4.0"}, "bmcfw_version"},
		{"garbage", good + file(n6001+"/bmcfw_version", "1.4.0"), sensors.Firmware{Build: "1.4.0"}, "bmcfw_version"},
		{"image that no terminal can take", good + file(image, "\x1b[2J"), sensors.Firmware{BMC: "1.4.1", Build: "1.4.0"}, "fpga_boot_image"},
		{"long image", good + file(image, strings.Repeat("a", 33)), sensors.Firmware{BMC: "1.4.1", Build: "1.4.0"}, "fpga_boot_image"},
	} {
		chips := must.Value(sensors.Chips(node(t, tt.tree)))(t)
		got, err := sensors.ReadFirmware(chips[card])
		compare.Equal(t, tt.name, tt.want, got)
		compare.Outcome(t, tt.name, tt.failed, err)
	}
}

func FuzzParseFirmware(f *testing.F) {
	for _, s := range []string{"0x10400", "0x44020014", "0xffffffff", "0x100000000", "0", "1.4.0", ""} {
		f.Add(s)
	}
	form := regexp.MustCompile(`^([A-Z]\.)?\d{1,3}\.\d{1,3}\.\d{1,3}$`)
	f.Fuzz(func(t *testing.T, s string) {
		version, err := sensors.ParseFirmware(s)
		if version != "" && (err != nil || !form.MatchString(version)) {
			t.Errorf("%q: found %q, error %v; want a version or an error", s, version, err)
		}
	})
}
