package sysfs_test

import (
	"testing"

	"b-com.com/accelerator-device-plugin/internal/sysfs"
)

func TestParseAddress(t *testing.T) {
	for text, want := range map[string]string{
		"3b:00.0": "0000:3b:00.0", "0000:3B:00.0": "0000:3b:00.0", "10000:01:00.0": "10000:01:00.0",
		"3b:00": "", "3b:00.0-p1": "", "": "", "3b:00.0\x1b[2J": "",
	} {
		if got, err := sysfs.ParseAddress(text); got != want || (err == nil) != (want != "") {
			t.Errorf("%q: %q, %v, want %q", text, got, err, want)
		}
	}
}

func FuzzParseAddress(f *testing.F) {
	f.Add("3b:00.0")
	f.Add("10000:01:00.0")
	f.Fuzz(func(t *testing.T, text string) {
		address, err := sysfs.ParseAddress(text)
		if err != nil {
			return
		}
		if again, err := sysfs.ParseAddress(address); err != nil || again != address {
			t.Errorf("%q: %q, again %q, %v", text, address, again, err)
		}
	})
}
