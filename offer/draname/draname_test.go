package draname_test

import (
	"fmt"
	"regexp"
	"testing"

	"b-com.com/accelerator-device-plugin/offer/draname"
	"b-com.com/accelerator-device-plugin/test/compare"
)

// label is a DNS label, as the API demands.
var label = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`)

func TestDevice(t *testing.T) {
	for id, want := range map[string]string{
		"3b:00.0": "pci-0000-3b-00-0", "3b:00.0-p1": "pci-0000-3b-00-0-p1",
		"0001:3b:1f.7-p3": "pci-0001-3b-1f-7-p3", "10000:3b:00.0": "pci-10000-3b-00-0",
	} {
		device := draname.Device(id)
		if device != want || !label.MatchString(device) {
			t.Errorf("Device(%q) = %q, want %q, a DNS label", id, device, want)
		}
		if back, ok := draname.ID(device); back != id || !ok {
			t.Errorf("ID(%q) = %q, %v, want %q, true", device, back, ok, id)
		}
	}
	for _, id := range []string{"", "0", "unit-3", "0000:3b:00.0", "3B:00.0", "3b:00.0-p0"} {
		compare.Equal(t, fmt.Sprintf("Device(%q)", id), "", draname.Device(id))
	}
}

func FuzzID(f *testing.F) {
	for _, device := range []string{"pci-0000-3b-00-0", "pci-0001-3b-1f-7-p3", "pci-", "0000-3b-00-0", "pci-0000-3b-00-0-p0"} {
		f.Add(device)
	}
	f.Fuzz(func(t *testing.T, device string) {
		if id, ok := draname.ID(device); ok && draname.Device(id) != device {
			t.Errorf("ID(%q) = %q, whose name is %q", device, id, draname.Device(id))
		}
	})
}
