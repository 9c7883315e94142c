package names_test

import (
	"testing"

	"k8s.io/apimachinery/pkg/util/validation"

	"b-com.com/accelerator-device-plugin/dra/names"
)

func TestDevice(t *testing.T) {
	for id, want := range map[string]string{
		"3b:00.0": "pci-0000-3b-00-0", "3b:00.0-p1": "pci-0000-3b-00-0-p1",
		"0001:3b:1f.7-p3": "pci-0001-3b-1f-7-p3", "10000:3b:00.0": "pci-10000-3b-00-0",
	} {
		device := names.Device(id)
		if device != want || len(validation.IsDNS1123Label(device)) > 0 {
			t.Errorf("Device(%q) = %q, want %q, a DNS label", id, device, want)
		}
		if back, ok := names.ID(device); back != id || !ok {
			t.Errorf("ID(%q) = %q, %v, want %q, true", device, back, ok, id)
		}
	}
	for _, id := range []string{"", "0", "unit-3", "0000:3b:00.0", "3B:00.0", "3b:00.0-p0"} {
		if device := names.Device(id); device != "" {
			t.Errorf("Device(%q) = %q, want none", id, device)
		}
	}
}

func FuzzID(f *testing.F) {
	for _, device := range []string{"pci-0000-3b-00-0", "pci-0001-3b-1f-7-p3", "pci-", "0000-3b-00-0", "pci-0000-3b-00-0-p0"} {
		f.Add(device)
	}
	f.Fuzz(func(t *testing.T, device string) {
		if id, ok := names.ID(device); ok && names.Device(id) != device {
			t.Errorf("ID(%q) = %q, whose name is %q", device, id, names.Device(id))
		}
	})
}
