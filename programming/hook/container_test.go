package hook_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"b-com.com/accelerator-device-plugin/programming/hook"
	bits "b-com.com/accelerator-device-plugin/test/bitstreamtest"
	"b-com.com/accelerator-device-plugin/test/compare"
	"b-com.com/accelerator-device-plugin/test/must"
)

func TestReadState(t *testing.T) {
	for _, test := range []struct{ name, text, want string }{
		{"good", `{"ociVersion":"1.1.0","id":"c1","status":"creating","pid":7,"bundle":"/run/b","annotations":{"a":"b"}}`, ""},
		{"broken", `{"bundle":`, "not the JSON of the OCI runtime specification"},
		{"more behind it", `{"bundle":"/run/b"} {}`, "not the JSON of the OCI runtime specification"},
		{"relative bundle", `{"bundle":"run/b"}`, `bundle: found "run/b", want the absolute path of a directory`},
		{"too long", `{"bundle":"/` + strings.Repeat("b", 1<<20) + `"}`, "more than 1048576 bytes, want at most 1048576"},
	} {
		t.Run(test.name, func(t *testing.T) {
			state, err := hook.ReadState(strings.NewReader(test.text))
			if test.want == "" && (err != nil || state.ID != "c1" || state.Bundle != "/run/b") {
				t.Errorf("%+v, %v", state, err)
			}
			if test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
				t.Errorf("error %v, want %q in it", err, test.want)
			}
		})
	}
}

// If config.json is actually a link, a FIFO or a device, it isn't opened.
func TestReadConfigOpens(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "config.json")
	target := filepath.Join(dir, "target")
	must.Succeed(t, os.WriteFile(target, []byte(`{"process":{"env":[]}}`), 0o600))
	for _, test := range []struct {
		name  string
		place func() error
		want  string
	}{
		{"nothing", func() error { return nil }, "no such file or directory"},
		{"link", func() error { return os.Symlink(target, path) }, "too many levels of symbolic links"},
		{"directory", func() error { return os.Mkdir(path, 0o755) }, "want a regular file"},
		{"FIFO", func() error { return syscall.Mkfifo(path, 0o600) }, "want a regular file"},
		{"too long", func() error { return os.WriteFile(path, make([]byte, 16<<20+1), 0o600) }, "more than 16777216 bytes"},
		{"file", func() error { return os.Rename(target, path) }, ""},
	} {
		must.Succeed(t, test.place())
		_, err := hook.ReadConfig(path)
		compare.Outcome(t, test.name, test.want, err)
		os.Remove(path)
	}
}

func TestPairs(t *testing.T) {
	const (
		i, a, b  = bits.Interface, bits.AFU, bits.OtherAFU
		capitals = "CE489693-98F0-5F33-946D-560708BE108A"
		long     = "123456789012345678901234567890"
	)
	for _, test := range []struct {
		name string
		env  []string
		want [][3]string
		err  string
	}{
		{"one", []string{"PATH=/bin", "FPGA_REGION_1=" + i, "FPGA_AFU_1=" + a}, [][3]string{{"FPGA_REGION_1, FPGA_AFU_1", i, a}}, ""},
		{"capitals and dashes", []string{"FPGA_REGION_1=" + capitals, "FPGA_AFU_1=D8424DC4-A4A3-C413-F89E-433683F9040B"},
			[][3]string{{"FPGA_REGION_1, FPGA_AFU_1", i, a}}, ""},
		{"in the order of numbers", []string{"FPGA_AFU_10=" + a, "FPGA_AFU_9=" + b, "FPGA_REGION_10=" + i, "FPGA_REGION_" + long + "=" + i,
			"FPGA_REGION_9=" + i, "FPGA_AFU_" + long + "=" + b, "FPGA_REGION_09=" + i, "FPGA_AFU_09=" + a}, [][3]string{
			{"FPGA_REGION_9, FPGA_AFU_9", i, b}, {"FPGA_REGION_09, FPGA_AFU_09", i, a}, {"FPGA_REGION_10, FPGA_AFU_10", i, a},
			{"FPGA_REGION_" + long + ", FPGA_AFU_" + long, i, b}}, ""},
		{"the last of two counts", []string{"FPGA_REGION_1=" + i, "FPGA_AFU_1=" + a, "FPGA_AFU_1=" + b}, [][3]string{{"FPGA_REGION_1, FPGA_AFU_1", i, b}}, ""},
		{"hash", []string{"FPGA_REGION_1=" + i, "FPGA_AFU_1=" + bits.Hash}, [][3]string{{"FPGA_REGION_1, FPGA_AFU_1", i, bits.Hash}}, ""},
		{"other names", []string{"FPGA_REGION_1=" + i, "FPGA_AFU_1=" + a, "FPGA_REGION=x", "FPGA_REGION_=x", "FPGA_AFU_x=x", "FPGA_REGION_1x=x", "FPGA_REGION_-1=x"},
			[][3]string{{"FPGA_REGION_1, FPGA_AFU_1", i, a}}, ""},
		{"no region", []string{"FPGA_AFU_1=" + a}, nil, "FPGA_AFU_1 is set without FPGA_REGION_1: set both"},
		{"no AFU", []string{"FPGA_REGION_1=" + i}, nil, "FPGA_REGION_1 is set without FPGA_AFU_1: set both"},
		{"second without AFU", []string{"FPGA_REGION_1=" + i, "FPGA_AFU_1=" + a, "FPGA_REGION_2=" + i}, nil, "FPGA_REGION_2 is set without FPGA_AFU_2: set both"},
		{"neither", []string{"PATH=/bin"}, nil, "the container has no FPGA_REGION_n and FPGA_AFU_n"},
		{"number of 41 digits", []string{"FPGA_REGION_1=" + i, "FPGA_AFU_1=" + a, "FPGA_AFU_" + strings.Repeat("1", 41) + "=" + a}, nil, "FPGA_AFU_n: found an n of 41 digits, want at most 40"},
		{"no env", nil, nil, "process.env: found none"},
		{"region of 31 digits", []string{"FPGA_REGION_1=" + i[1:], "FPGA_AFU_1=" + a}, nil, "FPGA_REGION_1: "},
		{"region is a path", []string{"FPGA_REGION_1=../../../etc/passwd", "FPGA_AFU_1=" + a}, nil, `FPGA_REGION_1: found "../../../etc/passwd"`},
		{"AFU is a path", []string{"FPGA_REGION_1=" + i, "FPGA_AFU_1=../d8424dc4a4a3c413"}, nil, `FPGA_AFU_1: found "../d8424dc4a4a3c413"`},
		{"AFU of 7 digits", []string{"FPGA_REGION_1=" + i, "FPGA_AFU_1=1234567"}, nil, `FPGA_AFU_1: found "1234567", want`},
		{"AFU of 41 digits", []string{"FPGA_REGION_1=" + i, "FPGA_AFU_1=" + bits.Hash + "0"}, nil, "FPGA_AFU_1: "},
		{"empty", []string{"FPGA_REGION_1=", "FPGA_AFU_1="}, nil, "FPGA_REGION_1: "},
		{"region all f", []string{"FPGA_REGION_1=" + strings.Repeat("F", 32), "FPGA_AFU_1=" + a}, nil, "want an id that is not all f"},
		{"AFU all f", []string{"FPGA_REGION_1=" + i, "FPGA_AFU_1=" + strings.Repeat("f", 32)}, nil, "want an id that is not all f"},
	} {
		t.Run(test.name, func(t *testing.T) {
			pairs, err := hook.Pairs(configOf(test.env))
			var got [][3]string
			for _, p := range pairs {
				got = append(got, p.Fields())
			}
			compare.Values(t, "pairs", test.want, got)
			compare.Outcome(t, "error", test.err, err)
		})
	}
}

func FuzzState(f *testing.F) {
	f.Add([]byte(`{"ociVersion":"1.1.0","id":"c1","bundle":"/run/b"}`))
	f.Add([]byte(`{"Bundle":"/a","bundle":1}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		state, err := hook.ReadState(strings.NewReader(string(text)))
		if err == nil && !filepath.IsAbs(state.Bundle) {
			t.Errorf("bundle %q of %q", state.Bundle, text)
		}
	})
}

// Only port device nodes count as ports. Other families' device nodes and block devices don't.
func TestPortsOfContainer(t *testing.T) {
	var c hook.Config
	text := `{"linux":{"devices":[{"path":"/dev/vfio/12","type":"c"},{"path":"/dev/dfl-port.1","type":"c"},{"path":"/dev/vfio/vfio","type":"c"},
		{"path":"/dev/vfio/devices/vfio0","type":"c"},{"path":"/dev/iommu","type":"c"},{"path":"/dev/vfio/dfl-port.2","type":"c"},
		{"path":"/dev/intel-fpga-port.0"},{"path":"/dev/dfl-port.3","type":"b"},{"path":"/dev/dfl-fme.0","type":"c"}]}}`
	must.Succeed(t, json.Unmarshal([]byte(text), &c))
	compare.Values(t, "ports", []string{"/dev/dfl-port.1", "/dev/intel-fpga-port.0"}, hook.Ports(c))
}

func FuzzConfig(f *testing.F) {
	f.Add([]byte(`{"process":{"env":["FPGA_REGION_1=` + bits.Interface + `","FPGA_AFU_1=` + bits.AFU + `"]},"linux":{"devices":[{"path":"/dev/dfl-port.0"}]},"hooks":{"createRuntime":[{"path":"/x","args":["x","hook"]}]}}`))
	f.Add([]byte(`{"process":null,"linux":{"devices":null}}`))
	f.Add([]byte(`{"process":{"env":null}}`))
	path := filepath.Join(f.TempDir(), "config.json")
	f.Fuzz(func(t *testing.T, text []byte) {
		path := fmt.Sprintf("%s.%d", path, os.Getpid())
		must.Succeed(t, os.WriteFile(path, text, 0o600))
		config, err := hook.ReadConfig(path)
		if err != nil {
			return
		}
		checkPairs(t, config.Process != nil, func() ([]hook.Pair, error) { return hook.Pairs(config) })
		for _, p := range hook.Ports(config) {
			compare.Equal(t, fmt.Sprintf("directory of port %q", p), "/dev", filepath.Dir(p))
		}
	})
}

func FuzzEnv(f *testing.F) {
	f.Add("FPGA_REGION_1="+bits.Interface, "FPGA_AFU_1="+bits.AFU, "FPGA_AFU_01=x")
	f.Add("FPGA_REGION_00="+bits.Interface, "FPGA_AFU_00="+bits.Hash, "FPGA_REGION_0=")
	f.Fuzz(func(t *testing.T, a, b, c string) {
		checkPairs(t, true, func() ([]hook.Pair, error) { return hook.Pairs(configOf([]string{a, b, c})) })
	})
}

// checkPairs checks that the IDs can be used as file names.
func checkPairs(t *testing.T, env bool, pairs func() ([]hook.Pair, error)) {
	all, err := pairs()
	if err == nil && (len(all) == 0 || !env) {
		t.Error("no pair, and no error")
	}
	for _, p := range all {
		fields := p.Fields()
		for _, id := range fields[1:] {
			if len(id) < 8 || len(id) > 40 || strings.Trim(id, "0123456789abcdef") != "" || strings.Trim(id, "f") == "" {
				t.Errorf("id %q", id)
			}
		}
	}
}
