package daemon

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"b-com.com/accelerator-device-plugin/daemon/config"
	"b-com.com/accelerator-device-plugin/daemon/cordon"
	"b-com.com/accelerator-device-plugin/offer"
	"b-com.com/accelerator-device-plugin/test/compare"
	"b-com.com/accelerator-device-plugin/test/must"
)

// A card isn't expected if it is cordoned or excluded as a whole, or if the settings don't list it.
func TestExempt(t *testing.T) {
	cordoned := func(device string) []cordon.Cordon {
		return []cordon.Cordon{{Device: device, By: "jo", Why: "fan", Since: time.Unix(1, 0)}}
	}
	for _, test := range []struct {
		name    string
		cordons []cordon.Cordon
		adjust  func(*config.Config)
		family  string
		want    bool
	}{
		{"expected", nil, nil, "dfl", false},
		{"cordoned", cordoned("3b:00.0"), nil, "dfl", true},
		{"another card is cordoned", cordoned("5e:00.0"), nil, "dfl", false},
		{"port 1 is cordoned", cordoned("3b:00.0-p1"), nil, "dfl", false},
		{"excluded", nil, func(c *config.Config) { c.Exclude = map[string]bool{"3b:00.0": true} }, "dfl", true},
		{"port 0 is excluded", nil, func(c *config.Config) { c.Exclude = map[string]bool{"3b:00.0-p0": true} }, "dfl", false},
		{"port 1 is excluded", nil, func(c *config.Config) { c.Exclude = map[string]bool{"3b:00.0-p1": true} }, "dfl", false},
		{"its family is off", nil, nil, "xrt", true},
		{"its family is on", nil, func(c *config.Config) { c.Families = []string{"xrt"} }, "xrt", false},
		{"units of a pool", nil, func(c *config.Config) { c.Mode = offer.Pool }, "dfl", true},
	} {
		cfg := config.Defaults()
		if test.adjust != nil {
			test.adjust(&cfg)
		}
		compare.Equal(t, test.name+": exempt", test.want, exempt(cfg, test.cordons, "3b:00.0", test.family))
	}
}

// A function is on the bus if it has the card's address and IDs. It may be bound to a driver for virtual machines.
func TestOnBus(t *testing.T) {
	root := t.TempDir()
	dir := filepath.Join(root, "bus/pci/devices/0000:5e:00.0")
	must.Succeed(t, os.MkdirAll(dir, 0o755))
	must.Succeed(t, os.WriteFile(filepath.Join(dir, "modalias"), []byte("pci:v00008086d000009C4sv00008086sd00000000bc12sc00i00\n"), 0o444))
	for _, test := range []struct {
		address, pciID string
		want           bool
	}{
		{"5e:00.0", "8086:09c4:8086:0000", true},
		{"5e:00.0", "", true},
		{"5e:00.0", "10ee:5000:10ee:000e", false},
		{"3b:00.0", "8086:09c4:8086:0000", false},
		{"0001:5e:00.0", "", false},
	} {
		compare.Equal(t, fmt.Sprintf("%s %q is on the bus", test.address, test.pciID), test.want, onBus(root, test.address, test.pciID))
	}
	for _, test := range []struct {
		driver, pciID string
		want          bool
	}{
		{"", "8086:09c4:8086:0000", false},
		{"dfl-pci", "8086:09c4:8086:0000", false},
		{"vfio-pci", "10ee:5000:10ee:000e", false},
		{"vfio-pci", "8086:09c4:8086:0000", true},
	} {
		_ = os.Remove(filepath.Join(dir, "driver")) // the previous driver's link
		if test.driver != "" {
			must.Succeed(t, os.Symlink("../../../drivers/"+test.driver, filepath.Join(dir, "driver")))
		}
		compare.Equal(t, fmt.Sprintf("driver %q, %s: for a virtual machine", test.driver, test.pciID), test.want, onVFIO(root, "5e:00.0", test.pciID))
	}
}

func TestMachine(t *testing.T) {
	root := t.TempDir()
	compare.Equal(t, "machine without firmware", "", machine(root))
	dir := filepath.Join(root, "class/dmi/id")
	must.Succeed(t, os.MkdirAll(dir, 0o755))
	must.Succeed(t, os.WriteFile(filepath.Join(dir, "product_uuid"), []byte("4C4C4544-0042-3510-8052-B4C04F4A3332\n"), 0o400))
	compare.Equal(t, "machine", "4c4c4544-0042-3510-8052-b4c04f4a3332", machine(root))
}
