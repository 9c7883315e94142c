package slices_test

import (
	"path/filepath"
	"strings"
	"testing"

	resourceapi "k8s.io/api/resource/v1"
	"sigs.k8s.io/yaml"

	"b-com.com/accelerator-device-plugin/daemon"
	"b-com.com/accelerator-device-plugin/daemon/config"
	"b-com.com/accelerator-device-plugin/dra/slices"
	"b-com.com/accelerator-device-plugin/internal/metrics"
	"b-com.com/accelerator-device-plugin/internal/sysfs"
	"b-com.com/accelerator-device-plugin/inventory"
	"b-com.com/accelerator-device-plugin/offer"
	"b-com.com/accelerator-device-plugin/offer/draname"
	"b-com.com/accelerator-device-plugin/test/board"
	"b-com.com/accelerator-device-plugin/test/eventtest"
	"b-com.com/accelerator-device-plugin/test/golden"
	"b-com.com/accelerator-device-plugin/test/must"
	"b-com.com/accelerator-device-plugin/test/patient"
	"b-com.com/accelerator-device-plugin/test/task"
)

const boardsDir = "../../testdata/sysfs/"

// TestBoards compares the slices of every board, as the real families read it, with a golden file.
func TestBoards(t *testing.T) {
	files, err := filepath.Glob(boardsDir + "*.txtar")
	if err != nil || len(files) < 20 {
		t.Fatalf("found %d boards, error %v; want 20 or more", len(files), err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".txtar")
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			must.Succeed(t, board.Unfold(root, file))
			got := slices.Of(devicesOn(t, root), slices.Options{
				Node: "worker-3", Effect: resourceapi.DeviceTaintEffectNoExecute, PCI: slices.PCI(root + "/sys"),
			})
			validate(t, got, "worker-3")
			var devices [][]shortDevice
			for _, slice := range got.Pools["worker-3"].Slices {
				devices = append(devices, nil)
				for _, d := range slice.Devices {
					devices[len(devices)-1] = append(devices[len(devices)-1], short(d))
				}
			}
			compareGolden(t, "testdata/boards/"+name+".yaml", devices)
		})
	}
	written, err := filepath.Glob("testdata/boards/*.yaml")
	if err != nil || len(written) != len(files) {
		t.Errorf("found %d golden files for %d boards, error %v; want one for each", len(written), len(files), err)
	}
}

// shortDevice is a device whose attributes take one line each: "portId: 0" instead of "portId:" and "int: 0".
type shortDevice struct {
	resourceapi.Device `json:",inline"`
	Attributes         map[resourceapi.QualifiedName]any `json:"attributes,omitempty"`
}

func short(d resourceapi.Device) shortDevice {
	s := shortDevice{d, map[resourceapi.QualifiedName]any{}}
	for name, value := range d.Attributes {
		switch {
		case value.StringValue != nil:
			s.Attributes[name] = *value.StringValue
		case value.IntValue != nil:
			s.Attributes[name] = *value.IntValue
		default:
			s.Attributes[name] = value
		}
	}
	return s
}

// compareGolden compares the devices of each slice with a golden file.
func compareGolden(t *testing.T, path string, devices any) {
	t.Helper()
	golden.Compare(t, path, string(must.Value(yaml.Marshal(devices))(t)))
}

// devicesOn returns the devices of the node below root, with the names that the driver gives.
func devicesOn(t *testing.T, root string) []*inventory.Device {
	t.Helper()
	cfg := config.Defaults()
	cfg.Mode, cfg.Families = offer.Single, nil
	for _, f := range daemon.AllFamilies(cfg) {
		cfg.Families = append(cfg.Families, f.Name())
	}
	watching := daemon.Watching(cfg, metrics.New("test"))
	watching.Policy.Name = func(*inventory.Device) (string, error) { return draname.Driver, nil }
	inv := inventory.New(watching, sysfs.Host{Sys: root + "/sys", Dev: root + "/dev", Simulated: true}, eventtest.Log(t))
	defer task.Run(t, inv.Run)()
	patient.Until(t, "complete snapshot", func() bool { s, _ := inv.Latest(); return s.Complete })
	s, _ := inv.Latest()
	return s.Devices
}
