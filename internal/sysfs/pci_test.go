package sysfs_test

import (
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"b-com.com/accelerator-device-plugin/internal/sysfs"
	"b-com.com/accelerator-device-plugin/test/compare"
	"b-com.com/accelerator-device-plugin/test/must"
)

func TestUpstream(t *testing.T) {
	for _, tt := range []struct{ name, dir, slot, root string }{
		{"root port", "/s/pci0000:00/0000:00:01.0/0000:01:00.0", "/s/pci0000:00/0000:00:01.0", "/s/pci0000:00/0000:00:01.0"},
		{"switch", "/s/pci0000:00/0000:00:01.0/0000:01:00.0/0000:02:08.0/0000:03:00.0",
			"/s/pci0000:00/0000:00:01.0/0000:01:00.0/0000:02:08.0", "/s/pci0000:00/0000:00:01.0"},
		{"domain behind VMD", "/s/pci0000:5d/0000:5d:05.5/pci10000:00/10000:00:02.0/10000:01:00.0",
			"/s/pci0000:5d/0000:5d:05.5/pci10000:00/10000:00:02.0", "/s/pci0000:5d/0000:5d:05.5/pci10000:00/10000:00:02.0"},
		{"root bus", "/s/pci0000:00/0000:01:00.0", "", ""},
		{"bus directory", "/s/bus/pci/devices/0000:01:00.0", "", ""},
		{"relative", "0000:01:00.0", "", ""},
		{"top", "/0000:00:01.0/0000:01:00.0", "/0000:00:01.0", "/0000:00:01.0"},
		{"root", "/", "", ""},
		{"empty", "", "", ""},
	} {
		if slot, root := sysfs.Upstream(tt.dir); slot != tt.slot || root != tt.root {
			t.Errorf("%s: slot %q, root %q; want %q, %q", tt.name, slot, root, tt.slot, tt.root)
		}
	}
}

func TestPCIID(t *testing.T) {
	for _, tt := range []struct{ name, board, want string }{
		{"modalias", "-- sys/modalias --\npci:v00008086d000009C4sv00008086sd00000000bc12sc00i00\n", "8086:09c4:8086:0000"},
		{"modalias is rubbish", "-- sys/modalias --\npci:\n", ""},
		{"nothing", "-- sys/ --\n", ""},
	} {
		compare.Equal(t, tt.name, tt.want, must.Value(sysfs.PCIID(node(t, tt.board).Sys))(t))
	}
}

func TestParseLinkSpeed(t *testing.T) {
	for _, tt := range []struct {
		in   string
		want int // tenths of GT/s; -1: refused
	}{
		{"2.5 GT/s PCIe", 25}, {"2.5 GT/s", 25}, {"8 GT/s", 80}, {"8.0 GT/s PCIe", 80}, {"64.0 GT/s PCIe", 640},
		{"Unknown", 0}, {"Unknown speed", 0},
		{"", -1}, {"8", -1}, {"8.0", -1}, {"GT/s", -1}, {" GT/s", -1}, {".5 GT/s", -1}, {"8. GT/s", -1}, {"8.00 GT/s", -1},
		{"0 GT/s", -1}, {"0.0 GT/s PCIe", -1}, {"-8 GT/s", -1}, {"+8 GT/s", -1}, {"8e1 GT/s", -1}, {"8.- GT/s", -1},
		{"99999 GT/s", -1}, {"8.0 GT/s PCIe PCIe", -1}, {"8.0 GT/s ", -1}, {"133 MHz PCI-X", -1}, {"unknown", -1},
	} {
		got, err := sysfs.ParseLinkSpeed(tt.in)
		if err == nil && got != tt.want || (err == nil) != (tt.want >= 0) {
			t.Errorf("%q: %d, error %v; want %d", tt.in, got, err, tt.want)
		}
	}
}

func TestReadFull(t *testing.T) {
	h := node(t, "-- sys/config --\nabcdef\n-- sys/short --\nab\n-- sys/dir/ --\n")
	for _, tt := range []struct {
		name, want string
		err        error
	}{
		{"config", "abcd", nil},
		{"short", "", io.ErrUnexpectedEOF},
		{"dir", "", syscall.EISDIR},
		{"none", "", syscall.ENOENT},
	} {
		var p [4]byte
		err := sysfs.ReadFull(h.Sys+"/"+tt.name, p[:])
		if !errors.Is(err, tt.err) || err == nil && string(p[:]) != tt.want {
			t.Errorf("%s: read %q, error %v; want %q, %v", tt.name, p, err, tt.want, tt.err)
		}
		if err != nil && !strings.Contains(err.Error(), h.Sys+"/"+tt.name) {
			t.Errorf("%s: error %v does not name the file", tt.name, err)
		}
	}
}

// FuzzParsePCIModalias compares the parser with a regular expression.
func FuzzParsePCIModalias(f *testing.F) {
	for _, s := range []string{
		"pci:v00008086d000009C4sv00008086sd00000000bc12sc00i00", "pci:v00008086d0000BCCEsv00008086sd00001770", // the ids alone
		"pci:v10008086d0000BCCEsv00008086sd00001770bc12sc00i00", "pci:v00008086d0000BCCGsv00008086sd00001770bc12sc00i00",
		"pci:v00008086d*sv*sd*bc*sc*i*", "usb:v1D6Bp0002d0510dc09dsc00dp01ic09isc00ip00in00", "pci:v00008086d0000BCCEsv000080", "pci:v0000", "",
	} {
		f.Add(s)
	}
	form := regexp.MustCompile(`^pci:v0000([0-9A-Fa-f]{4})d0000([0-9A-Fa-f]{4})sv0000([0-9A-Fa-f]{4})sd0000([0-9A-Fa-f]{4})`)
	f.Fuzz(func(t *testing.T, s string) {
		want := ""
		if m := form.FindStringSubmatch(s); m != nil {
			want = strings.ToLower(strings.Join(m[1:], ":"))
		}
		if got, err := sysfs.ParsePCIModalias(s); got != want || (err == nil) != (want != "") {
			t.Errorf("%q: %q, error %v; want %q", s, got, err, want)
		}
	})
}

// FuzzParseLinkSpeed checks that an accepted text is the result as an old or a new kernel prints it.
func FuzzParseLinkSpeed(f *testing.F) {
	for _, s := range []string{"8.0 GT/s PCIe", "16 GT/s", "2.5 GT/s", "Unknown", "Unknown speed", ".5 GT/s", ""} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got, err := sysfs.ParseLinkSpeed(s)
		if err != nil {
			return
		}
		number := strings.TrimLeft(strings.TrimSuffix(strings.TrimSuffix(s, " PCIe"), " GT/s"), "0")
		whole := ""
		if got >= 10 {
			whole = fmt.Sprint(got / 10)
		}
		if got < 0 || got == 0 != strings.HasPrefix(s, "Unknown") ||
			got > 0 && number != fmt.Sprintf("%s.%d", whole, got%10) && (got%10 != 0 || number != whole) {
			t.Errorf("%q: %d", s, got)
		}
	})
}

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
