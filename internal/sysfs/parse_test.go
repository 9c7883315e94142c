package sysfs_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"b-com.com/accelerator-device-plugin/internal/sysfs"
	"b-com.com/accelerator-device-plugin/test/compare"
)

const id = "d8424dc4a4a3c413f89e433683f9040b"

// TestParseNumbers calls all parsers of numbers with the same texts. A case has the wanted result
// of each parser, or "-" if it refuses the text. FuzzParseNumbers has texts that all of them refuse.
func TestParseNumbers(t *testing.T) {
	for _, tt := range []struct {
		in                  string
		mask, small, device string
	}{
		{"0", "0", "0", "-"},
		{"0x0", "0", "-", "-"},
		{"0x4000000000000", "4000000000000", "-", "-"},
		{"0xFFFFFFFFFFFFFFFF", "ffffffffffffffff", "-", "-"},
		{"0x", "-", "-", "-"},
		{"12", "-", "12", "-"},
		{"255", "-", "255", "-"},
		{"", "-", "-", "-"},
		{"245:0", "-", "-", "245:0"},
		{"4294967295:4294967295", "-", "-", "4294967295:4294967295"},
		{"245:", "-", "-", "-"},
		{":0", "-", "-", "-"},
	} {
		show := func(format string, err error, v ...any) string {
			if err != nil {
				return "-"
			}
			return fmt.Sprintf(format, v...)
		}
		mask, err := sysfs.ParseMask(tt.in)
		compare.Equal(t, fmt.Sprintf("mask %q, with error %v", tt.in, err), tt.mask, show("%x", err, mask))
		small, err := sysfs.ParseUint8(tt.in)
		compare.Equal(t, fmt.Sprintf("8-bit number %q, with error %v", tt.in, err), tt.small, show("%d", err, small))
		n, err := sysfs.ParseDeviceNumber(tt.in)
		compare.Equal(t, fmt.Sprintf("device number %q, with error %v", tt.in, err), tt.device, show("%d:%d", err, n.Major, n.Minor))
	}
}

// FuzzParsePCIAddress compares the parser with a regular expression.
func FuzzParsePCIAddress(f *testing.F) {
	for _, s := range []string{
		"0000:3b:00.0", "0001:AF:1F.7", "10000:01:00.0", "FFFFFFFF:ff:1f.7", "100000000:3b:00.0", // the last domain is too large
		"", "3b:00.0", "000:3b:00.0", "00000:3b:00.0", "0000:3g:00.0", "0000:3b:20.0", "0000:3b:00.8", "0000:3b:00.00",
		"pci0000:00", "0000:3b", "0000:3b:00.0\n", "0000:3b:00\x000", "0000.3b.00:0", "../0000:3b:00.0", "::.",
	} {
		f.Add(s)
	}
	form := regexp.MustCompile(`^([0-9a-f]{4}|[1-9a-f][0-9a-f]{4,7}):[0-9a-f]{2}:[01][0-9a-f]\.[0-7]$`)
	f.Fuzz(func(t *testing.T, s string) {
		got, err := sysfs.ParsePCIAddress(s)
		checkParsed(t, form.MatchString(strings.ToLower(s)) && isASCII(s), s, got, err)
	})
}

// checkParsed checks that a text was accepted, in lower case, or refused.
func checkParsed(t *testing.T, valid bool, text, got string, err error) {
	t.Helper()
	want := ""
	if valid {
		want = strings.ToLower(text)
	}
	if got != want || (err == nil) != valid {
		t.Errorf("%q: %q, error %v; want %q", text, got, err, want)
	}
}

// FuzzPCIAddressOf checks that the result is the last part of the path that is an address.
func FuzzPCIAddressOf(f *testing.F) {
	for _, s := range []string{
		"/devices/pci0000:00/0000:00:02.0/0000:02:00.0/fpga_region/region2/dfl-port.1", "/devices/pci0000:00/0000:00:02.0", "0000:01:00.0",
		"/devices/pci0000:5d/0000:5d:05.5/pci10000:00/10000:00:02.0/10000:01:00.0/fpga_region/region0", // behind VMD
		"/devices/pci0000:AF/0000:AF:00.0/fpga/intel-fpga-dev.0", "..//0000:01:00.0//x", "/devices/0000:01:00.0x", "/devices/0000:01:00.8",
		"/devices/pci0000:00/0000:00:1c.0/0000:00:1c.0:pcie001", "/devices/pci0000:00", "/devices/platform/soc@0/ffd03000.fpga", "/", "",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, path string) {
		want := ""
		for part := range strings.SplitSeq(path, "/") {
			if a, err := sysfs.ParsePCIAddress(part); err == nil {
				want = a
			}
		}
		compare.Equal(t, fmt.Sprintf("PCI address of %q", path), want, sysfs.PCIAddressOf(path))
		compare.Equal(t, fmt.Sprintf("PCI address of []byte(%q)", path), want, sysfs.PCIAddressOf([]byte(path)))
	})
}

// FuzzParseID compares the parser with a regular expression.
func FuzzParseID(f *testing.F) {
	for _, s := range []string{
		id, strings.ToUpper(id), strings.Repeat("0", 32), strings.Repeat("f", 32), strings.Repeat("F", 32),
		"", id[1:], id + "0", strings.Repeat(id, 128), "d8424dc4-a4a3-c413-f89e-433683f9040b",
		"0x" + id[2:], id[:31] + "\x00", id[:31] + "g", strings.Repeat("é", 16),
	} {
		f.Add(s)
	}
	form := regexp.MustCompile(`^[0-9a-fA-F]{32}$`)
	f.Fuzz(func(t *testing.T, s string) {
		got, err := sysfs.ParseID(s)
		checkParsed(t, form.MatchString(s) && len(s) == 32, s, got, err)
		compare.Equal(t, fmt.Sprintf("%q: all ones", got), got == strings.Repeat("f", 32), sysfs.AllOnes(got))
	})
}

// FuzzParseNumbers checks that the printed result of a parser is the accepted text.
func FuzzParseNumbers(f *testing.F) {
	for _, s := range []string{
		"0", "0x0", "0x4000000000000", "255", "245:0", "-1", "+1", "0x", ":", "1_0", "", "256", "1 ", "\x00",
		"0x10000000000000000", "0x-1", "0x1_0", "0X1", "4294967296:0", "245:0:0", "245:-1",
	} {
		f.Add(s)
	}
	trim := func(s string) string { return strings.TrimLeft(s, "0") }
	f.Fuzz(func(t *testing.T, s string) {
		if v, err := sysfs.ParseMask(s); err == nil && trim(fmt.Sprintf("%x", v)) != trim(strings.ToLower(strings.TrimPrefix(s, "0x"))) {
			t.Errorf("mask %q: %#x", s, v)
		}
		if v, err := sysfs.ParseUint8(s); err == nil && (v < 0 || v > 255 || trim(fmt.Sprint(v)) != trim(s)) {
			t.Errorf("8-bit number %q: %d", s, v)
		}
		if n, err := sysfs.ParseDeviceNumber(s); err == nil {
			major, minor, _ := strings.Cut(s, ":")
			if trim(fmt.Sprint(n.Major)) != trim(major) || trim(fmt.Sprint(n.Minor)) != trim(minor) {
				t.Errorf("device number %q: %v", s, n)
			}
		}
	})
}

func isASCII(s string) bool {
	for i := range len(s) {
		if s[i] >= 0x80 {
			return false
		}
	}
	return true
}

func TestNumbered(t *testing.T) {
	for name, want := range map[string]bool{
		"dfl-port.0": true, "dfl-port.12": true,
		"dfl-port.": false, "dfl-port.-1": false, "dfl-port.1a": false, "dfl-port": false, "dfl-fme.0": false,
	} {
		compare.Equal(t, name, want, sysfs.Numbered(name, "dfl-port."))
	}
}
