package draname_test

import (
	"fmt"
	"regexp"
	"testing"

	"b-com.com/accelerator-device-plugin/offer/draname"
	"b-com.com/accelerator-device-plugin/test/compare"
)

// label matches DNS labels, which the API requires.
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

func TestBitstream(t *testing.T) {
	const region, afu = "69528db6eb31577a8c3668f9faa081f6", "d8424dc4a4a3c413f89e433683f9040b"
	name := draname.Bitstream(region, afu)
	back, ok := draname.BitstreamAFU(name)
	if !label.MatchString(name) || back != afu || !ok {
		t.Errorf("Bitstream: found %q, and back %q, %v, want a DNS label, and %s", name, back, ok, afu)
	}
	if id, ok := draname.ID(name); ok {
		t.Errorf("ID(%q) = %q, want none: it is no card", name, id)
	}
	compare.Equal(t, "name with the hash of an AOCX", "", draname.Bitstream(region, afu+"00000000"))
	for _, other := range []string{"", "pci-0000-3b-00-0", "afu-", "afu-" + afu, name + "0", "afu-" + afu + "-../../../../../..", "x" + name} {
		if afu, ok := draname.BitstreamAFU(other); ok {
			t.Errorf("BitstreamAFU(%q) = %q, want none", other, afu)
		}
	}
}
