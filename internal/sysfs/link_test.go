package sysfs_test

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"

	"b-com.com/accelerator-device-plugin/internal/sysfs"
	"b-com.com/accelerator-device-plugin/test/compare"
	"b-com.com/accelerator-device-plugin/test/must"
)

func TestReadLink(t *testing.T) {
	const good = "max_link_speed=16.0 GT/s PCIe;max_link_width=16;current_link_speed=8.0 GT/s PCIe;current_link_width=8"
	trained := sysfs.Link{Speed: 80, MaxSpeed: 160, Width: 8, MaxWidth: 16}
	for _, tt := range []struct {
		name, files string // NAME=VALUE;…; later ones replace earlier ones
		want        sysfs.Link
		refused     bool
	}{
		{"good", good, trained, false},
		{"active", good + ";power/runtime_status=active", trained, false},
		{"without runtime power management", good + ";power/runtime_status=unsupported", trained, false},
		{"suspended", good + ";power/runtime_status=suspended", sysfs.Link{}, false},
		{"falling asleep", good + ";power/runtime_status=suspending", sysfs.Link{}, false},
		{"virtual function", good + ";current_link_speed=Unknown;current_link_width=0", sysfs.Link{}, false},
		{"integrated into the root complex", "max_link_speed=Unknown;max_link_width=255;current_link_speed=Unknown;current_link_width=0", sysfs.Link{}, false},
		{"all ones", "max_link_speed=64.0 GT/s PCIe;max_link_width=63;current_link_speed=Unknown;current_link_width=63", sysfs.Link{}, false},
		{"died before the present values", good + ";current_link_speed=Unknown;current_link_width=63", sysfs.Link{}, false},
		{"died before the present width", good + ";current_link_width=63", sysfs.Link{}, false},
		{"no such width", good + ";current_link_width=3", sysfs.Link{}, false},
		{"no files of the link", "power/runtime_status=active", sysfs.Link{}, false},
		{"garbage speed", good + ";current_link_speed=fast", sysfs.Link{}, true},
		{"garbage width", good + ";current_link_width=x8", sysfs.Link{}, true},
		{"garbage greatest speed", good + ";max_link_speed=-1", sysfs.Link{}, true},
	} {
		dir := t.TempDir()
		must.Succeed(t, os.Mkdir(dir+"/power", 0o755))
		for file := range strings.SplitSeq(tt.files, ";") {
			name, value, _ := strings.Cut(file, "=")
			must.Succeed(t, os.WriteFile(dir+"/"+name, []byte(value+"\n"), 0o644))
		}
		got, err := sysfs.ReadLink(dir)
		if got != tt.want || (err != nil) != tt.refused {
			t.Errorf("%s: found %+v, error %v; want %+v, an error: %t", tt.name, got, err, tt.want, tt.refused)
		}
	}

	// Suspended devices are not touched: reading a directory would fail.
	h := node(t, "-- sys/power/runtime_status --\nsuspended\n-- sys/max_link_speed/ --\n-- sys/max_link_width/ --\n"+
		"-- sys/current_link_speed/ --\n-- sys/current_link_width/ --\n")
	compare.Equal(t, "link of a suspended device", sysfs.Link{}, must.Value(sysfs.ReadLink(h.Sys))(t))
	h = node(t, "-- sys/power/runtime_status/ --\n")
	compare.ErrorIs(t, "status that cannot be read", syscall.EISDIR, compare.ErrorOf(sysfs.ReadLink(h.Sys)))
}

const recorded = "RxErr 0\nBadTLP 3\nBadDLLP 0\nRollover 0\nTimeout 18446744073709551615\nNonFatalErr 0\nCorrIntErr 0\nHeaderOF 0\nTOTAL_ERR_COR 4"

func TestParseCorrectable(t *testing.T) {
	counts := map[string]uint64{"RxErr": 0, "BadTLP": 3, "BadDLLP": 0, "Rollover": 0, "Timeout": 1<<64 - 1, "NonFatalErr": 0, "CorrIntErr": 0, "HeaderOF": 0}
	other := maps.Clone(counts)
	other["other"] = 7
	for _, tt := range []struct {
		name, in string
		want     map[string]uint64 // nil: refused
	}{
		{"recorded", recorded, counts},
		{"bits without a name", "aer_dev_correctable_bit[4] 5\nCXLErr 2\n" + recorded, other},
		{"only the total", "TOTAL_ERR_COR 0", map[string]uint64{}},
		{"a type twice", "BadTLP 1\n" + recorded, nil},
		{"no total", strings.TrimSuffix(recorded, "\nTOTAL_ERR_COR 4"), nil},
		{"cut", recorded[:len(recorded)-2], nil},
		{"another total", strings.Replace(recorded, "_COR", "_FATAL", 1), nil},
		{"total first", "TOTAL_ERR_COR 4\n" + recorded, nil},
		{"negative", strings.Replace(recorded, "3", "-3", 1), nil},
		{"sign", strings.Replace(recorded, "3", "+3", 1), nil},
		{"hexadecimal", strings.Replace(recorded, "3", "0x3", 1), nil},
		{"more than 64 bits", strings.Replace(recorded, "18446744073709551615", "18446744073709551616", 1), nil},
		{"no number", strings.Replace(recorded, "BadTLP 3", "BadTLP", 1), nil},
		{"empty line", "\n" + recorded, nil},
		{"empty", "", nil},
	} {
		got, err := sysfs.ParseCorrectable(tt.in)
		compare.Values(t, tt.name+": counts", tt.want, got)
		compare.Equal(t, fmt.Sprintf("%s: refused, with error %v", tt.name, err), tt.want == nil, err != nil)
	}
}

// FuzzParseCorrectable checks that the types of errors are bounded, and that an accepted text contains their counts.
func FuzzParseCorrectable(f *testing.F) {
	for _, s := range []string{recorded, "TOTAL_ERR_COR 0", "x 1\ny 2\nTOTAL_ERR_COR 0", "BadTLP 1\nBadTLP 1\nTOTAL_ERR_COR 2", "", "\n"} {
		f.Add(s)
	}
	names := []string{"RxErr", "BadTLP", "BadDLLP", "Rollover", "Timeout", "NonFatalErr", "CorrIntErr", "HeaderOF"}
	f.Fuzz(func(t *testing.T, s string) {
		counts, err := sysfs.ParseCorrectable(s)
		if err != nil {
			if counts != nil {
				t.Errorf("%q: found %v beside error %v", s, counts, err)
			}
			return
		}
		for name, n := range counts {
			if name == sysfs.OtherError {
				continue
			}
			_, digits, _ := strings.Cut("\n"+s, "\n"+name+" ")
			digits, _, _ = strings.Cut(digits, "\n")
			if strings.TrimLeft(digits, "0") != strings.TrimLeft(fmt.Sprint(n), "0") || !slices.Contains(names, name) {
				t.Errorf("%q: found %s %d, want a known type and %s", s, name, n, digits)
			}
		}
	})
}
