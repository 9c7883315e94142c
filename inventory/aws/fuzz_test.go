package aws_test

import (
	"fmt"
	"testing"

	"b-com.com/accelerator-device-plugin/internal/sysfs"
	"b-com.com/accelerator-device-plugin/inventory/aws"
)

// FuzzApplicationOf checks that a management function's application function is a different function, and that its
// address is valid and on the same bus.
func FuzzApplicationOf(f *testing.F) {
	f.Add("0000:00:1f.1", "1d0f:9248:1d0f:1d51")
	f.Add("0000:00:1e.0", "1d0f:1041:0000:0000")
	f.Add("0000:00:00.0", "1d0f:1041:0000:0000")
	f.Add("10000:ff:1f.7", "1d0f:9248:")
	f.Add("../..", "1d0f:9248:0000:0000")
	f.Fuzz(func(t *testing.T, address, id string) {
		got, ok := aws.ApplicationOf(address, id)
		if !ok {
			return
		}
		parsed, err := sysfs.ParsePCIAddress(got)
		if err != nil || parsed == address || len(parsed) != len(address) || parsed[:len(parsed)-4] != address[:len(address)-4] {
			t.Errorf("application function of %q: found %q (%v)", address, got, err)
		}
	})
}

// FuzzIDsOf checks the IDs against the bytes.
func FuzzIDsOf(f *testing.F) {
	f.Add(byte(0x0f), byte(0x1d), byte(0x48), byte(0x90))
	f.Add(byte(0xff), byte(0xff), byte(0xff), byte(0xff))
	f.Fuzz(func(t *testing.T, a, b, c, d byte) {
		got, ok := aws.IDsOf([4]byte{a, b, c, d})
		if want := fmt.Sprintf("%02x%02x:%02x%02x", b, a, d, c); got != want || ok == (a == 0xff && b == 0xff) {
			t.Errorf("found %q, %v; want %q", got, ok, want)
		}
	})
}
