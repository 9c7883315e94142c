package xrt_test

import (
	"strings"
	"testing"

	"b-com.com/accelerator-device-plugin/internal/sysfs"
	"b-com.com/accelerator-device-plugin/inventory/xrt"
)

const (
	uuid1 = "862c7020a250293e32036f19956669e5"
	uuid2 = "f465b0a3ae8c64f619bc150384ace69b"
)

func TestParse(t *testing.T) {
	state := func(parse func(string) (int, error)) func(string) (string, error) {
		return func(s string) (string, error) {
			n, err := parse(s)
			return map[bool]string{true: "good", false: "bad"}[n == 0], err
		}
	}
	for _, tt := range []struct {
		name  string
		parse func(string) (string, error)
		good  map[string]string
		bad   []string
	}{
		{"text", xrt.ParseText, map[string]string{"xcu250-figd2104-2L-e": "xcu250-figd2104-2L-e", "AWS VU9P": "AWS VU9P"},
			[]string{"", " ", "x\n", "x\x00y", "\xff\xff", "é", strings.Repeat("x", 64)}},
		{"VBNV", xrt.ParseVBNV, map[string]string{"xilinx_u250_gen3x16_xdma_shell_4_1": "xilinx_u250_gen3x16_xdma_shell_4_1", "xilinx:u250:xdma:201830.2": "xilinx:u250:xdma:201830.2"},
			[]string{"", "xilinx u250", "\xff\xff", strings.Repeat("x", 4096)}},
		{"timestamp", xrt.ParseTimestamp, map[string]string{"0": "0", "1561465320": "1561465320", "18446744073709551615": "18446744073709551615", "007": "7"},
			[]string{"", "-1", "0x1", "18446744073709551616", "1.5"}},
		{"UUIDs", xrt.ParseUUID, map[string]string{"": "", uuid1: uuid1, uuid1 + "\n" + uuid2: "", strings.ToUpper(uuid1): uuid1},
			[]string{"x", uuid1[1:], uuid1 + "\nx", "862c7020-a250-293e-3203-6f19956669e5"}},
		{"state", state(xrt.ParseState), map[string]string{"0": "good", "1": "bad", "-19": "bad"}, []string{"", "x", "0x0"}},
		{"ready", state(xrt.ParseReady), map[string]string{"0x1": "good", "0x0": "bad", "1": "good", "0": "bad"}, []string{"", "x", "-1", "0x", "0x1_0"}},
	} {
		for s, want := range tt.good {
			if got, err := tt.parse(s); got != want || err != nil {
				t.Errorf("%s %q: %q, %v, want %q", tt.name, s, got, err, want)
			}
		}
		for _, s := range tt.bad {
			if got, err := tt.parse(s); err == nil {
				t.Errorf("%s %q: %q, want an error", tt.name, s, got)
			}
		}
	}
}

// FuzzParse checks that no value read from a card leads to text that can't be displayed, or to a name that Kubernetes
// rejects.
func FuzzParse(f *testing.F) {
	for _, s := range []string{"", "0", "0x1", "-19", "xilinx_u250_gen3x16_xdma_shell_4_1", uuid1 + "\n" + uuid2, "\xff\x00", strings.Repeat("f", 32)} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		vbnv, err := xrt.ParseVBNV(s)
		if (err == nil) != (vbnv != "") || vbnv != "" && vbnv != s {
			t.Errorf("VBNV %q: %q, %v", s, vbnv, err)
		}
		timestamp, err := xrt.ParseTimestamp(s)
		if decimal := timestamp != "" && strings.Trim(timestamp, "0123456789") == ""; decimal != (err == nil) || len(timestamp) > 20 {
			t.Errorf("timestamp %q: %q, %v, want a part of a name", s, timestamp, err)
		}
		if text, err := xrt.ParseText(s); err == nil && (text == "" || len(text) > 63) {
			t.Errorf("text %q: %q", s, text)
		}
		if id, err := xrt.ParseUUID(s); id != "" {
			if same, idErr := sysfs.ParseID(id); err != nil || idErr != nil || same != id {
				t.Errorf("UUID %q: %q, %v", s, id, err)
			}
		}
		if n, err := xrt.ParseReady(s); err != nil && n != 0 {
			t.Errorf("ready %q: %d, %v", s, n, err)
		}
		if n, err := xrt.ParseState(s); err != nil && n != 0 {
			t.Errorf("state %q: %d, %v", s, n, err)
		}
	})
}
