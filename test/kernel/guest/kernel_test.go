package main

import (
	"bufio"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestModules(t *testing.T) {
	all := modules([]string{"all"}, true)
	if diff := cmp.Diff(allModules, all); diff != "" {
		t.Errorf("loading (-want +got):\n%s", diff)
	}
	slices.Reverse(all)
	if diff := cmp.Diff(all, modules([]string{"all"}, false)); diff != "" {
		t.Errorf("unloading (-want +got):\n%s", diff)
	}
	if allModules[0] != "fpga-mgr" {
		t.Errorf("allModules begins with %s, want fpga-mgr: modules must not change it", allModules[0])
	}
	if diff := cmp.Diff([]string{"dfl", "all"}, modules([]string{"dfl", "all"}, false)); diff != "" {
		t.Errorf("some (-want +got):\n%s", diff)
	}
}

func TestDriver(t *testing.T) {
	for device, want := range map[string]string{
		"0000:01:00.0": "/sys/bus/pci/drivers/dfl-pci",
		"dfl-port.0":   "/sys/bus/platform/drivers/dfl-port",
		"dfl-fme.12":   "/sys/bus/platform/drivers/dfl-fme",
	} {
		if got := driver(device); got != want {
			t.Errorf("%s: got %s, want %s", device, got, want)
		}
	}
}

func TestSlotOf(t *testing.T) {
	for slot, want := range map[string]string{"rp0": "01:00.0", "rp3": "04:00.0", "rp4": "", "rp-1": "", "r": "", "rp": ""} {
		got, err := slotOf([]string{"c0", "a10", slot})
		if got != want || (err == nil) != (want != "") {
			t.Errorf("%s: got %q, %v; want %q", slot, got, err, want)
		}
	}
}

// An answer of the host is a line: a verdict and a text.
func TestReadAnswer(t *testing.T) {
	for _, tc := range []struct{ line, want, err string }{
		{"ok c0 c1\n", "c0 c1", ""},
		{"ok \n", "", ""},
		{"err card \"c0\" is not plugged\n", "", `host: card "c0" is not plugged`},
		{"what\n", "", "host: "},
		{"ok c0", "", "host: EOF"}, // cut off
	} {
		got, err := readAnswer(bufio.NewReader(strings.NewReader(tc.line)))
		if got != tc.want || (err == nil) != (tc.err == "") || err != nil && err.Error() != tc.err {
			t.Errorf("%q: got %q, %v; want %q, %s", tc.line, got, err, tc.want, tc.err)
		}
	}
}
