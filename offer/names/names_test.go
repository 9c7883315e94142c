package names_test

import (
	"fmt"
	"strings"
	"testing"

	"b-com.com/accelerator-device-plugin/offer/names"
	"b-com.com/accelerator-device-plugin/test/compare"
)

// These names are copied from the example in the documentation of Intel's plugin.
const (
	iface  = "ce48969398f05f33946d560708be108a"
	afu    = "d8424dc4a4a3c413f89e433683f9040b"
	afName = "af-ce4.d84.zkiWk5jwXzOUbVYHCL4QithCTcSko8QT-J5DNoP5BAs"
)

func TestNames(t *testing.T) {
	for _, tc := range []struct{ name, iface, afu, af, region string }{
		{"Intel's example", iface, afu, afName, "region-" + iface},
		{"another card of Intel's", "bfac4d851ee856fe8c95865ce1bbaa2d", "f7df405cbd7acf7222f144b0b93acd18",
			"af-bfa.f7d.v6xNhR7oVv6MlYZc4buqLfffQFy9es9yIvFEsLk6zRg", "region-bfac4d851ee856fe8c95865ce1bbaa2d"},
		{"no AFU", iface, "", "", "region-" + iface},
		{"hash of an AOCX", iface, "40007c0623210742000ebc58df6f5343e668b03a", "", "region-" + iface},
		{"no interface", "", afu, "", ""},
		{"capitals", strings.ToUpper(iface), afu, "", ""},
		{"short interface", iface[:8], afu, "", ""},
		{"no digits", "../../../../../../../etc/passwd.", afu, "", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			af, ok := names.AF(tc.iface, tc.afu)
			if af != tc.af || ok != (tc.af != "") {
				t.Errorf("af: %q, %v, want %q", af, ok, tc.af)
			}
			region, ok := names.Region(tc.iface)
			if region != tc.region || ok != (tc.region != "") {
				t.Errorf("region: %q, %v, want %q", region, ok, tc.region)
			}
			for _, name := range []string{af, region} {
				if name != "" && (!names.Ours(name) || names.Validate("fpga.intel.com/"+name) != nil) {
					t.Errorf("found %q, want a name of this plugin that the kubelet accepts", name)
				}
			}
		})
	}
	if names.Ours("afu") || names.Ours("") {
		t.Error("Ours: found true for the name of another plugin, want false")
	}
	for mode, want := range map[string]bool{"af": true, "region": false, "regiondevel": false, "single": false} {
		compare.Equal(t, fmt.Sprintf("OfMode(%q, %q)", mode, afName), want, names.OfMode(mode, afName))
	}
}

func TestShell(t *testing.T) {
	for _, tc := range []struct{ name, vbnv, timestamp, want string }{
		{"with a timestamp", "xilinx_u200_xdma_201830_2", "1561465320", "amd.com/xilinx_u200_xdma_201830_2-1561465320"},
		{"with UUIDs", "xilinx_u250_gen3x16_xdma_shell_4_1", "0", "amd.com/xilinx_u250_gen3x16_xdma_shell_4_1-0"},
		{"colons and a dot", "xilinx:u250:xdma:201830.2", "1", "amd.com/xilinx_u250_xdma_201830.2-1"},
		{"characters that are not allowed", "xilinx u250/é\n", "1", "amd.com/xilinx_u250___-1"},
		{"longest", strings.Repeat("x", 61), "7", "amd.com/" + strings.Repeat("x", 61) + "-7"},
		{"too long", strings.Repeat("x", 62), "7", ""},
		{"no VBNV", "", "7", ""},
		{"no timestamp", "xilinx_u250", "", ""},
		{"a timestamp that is no number", "xilinx_u250", "-1", ""},
		{"does not begin with a letter or digit", "_u250", "7", ""},
		{"no letter and no digit", ":::", "7", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, ok := names.Shell(tc.vbnv, tc.timestamp)
			if got != tc.want || ok != (tc.want != "") {
				t.Errorf("%q, %v, want %q", got, ok, tc.want)
			}
			if ok && !names.IsShell(got) {
				t.Errorf("IsShell(%q): false", got)
			}
		})
	}
	for _, name := range []string{"", "amd.com/", "amd.com/-1", "amd.com/ama_u30", "amd.com/x-", "amd.com/x-1y", "xilinx.com/fpga-x-1", "x-1"} {
		if names.IsShell(name) {
			t.Errorf("IsShell(%q): true", name)
		}
	}
}

// FuzzShell checks that the kubelet accepts the name for any shell.
func FuzzShell(f *testing.F) {
	f.Add("xilinx_u250_gen3x16_xdma_shell_4_1", "0")
	f.Add("\x00\xff:.", "18446744073709551615")
	f.Fuzz(func(t *testing.T, vbnv, timestamp string) {
		name, ok := names.Shell(vbnv, timestamp)
		if ok != (name != "") || ok && (names.Validate(name) != nil || !names.IsShell(name)) {
			t.Errorf("%q, %v", name, ok)
		}
	})
}

const resource = "b-com.com/accelerator"

func TestValidate(t *testing.T) {
	for _, tc := range []struct {
		name, resource string
		want           string // part of the error, or "" for no error
	}{
		{"of this plugin", resource, ""},
		{"all allowed characters", "a/B_c.d-1", ""},
		{"no domain", "accelerator", "DOMAIN/NAME"},
		{"empty", "", "DOMAIN/NAME"},
		{"empty domain", "/a", "before the slash"},
		{"capitals", "B.com/a", "before the slash"},
		{"long domain", strings.Repeat("a", 245) + "/a", "at most 244"},
		{"longest domain", strings.Repeat("a", 244) + "/a", ""},
		{"native", "node.kubernetes.io/a", "reserved"},
		{"quota", "requests.b/a", "reserved"},
		{"empty name", "b.com/", "after the slash"},
		{"two slashes", "b.com/a/b", "after the slash"},
		{"long name", "b.com/" + strings.Repeat("a", 64), "1 to 63"},
	} {
		t.Run(tc.name, func(t *testing.T) { checkRefusal(t, names.Validate(tc.resource), tc.want) })
	}
}

func TestValidateNamespace(t *testing.T) {
	for _, tc := range []struct{ name, namespace, want string }{
		{"Intel's", "fpga.intel.com", ""},
		{"one word", "fpga", ""},
		{"empty", "", `namespace "": want a lower-case DNS name of at most 244 characters`},
		{"a resource", "fpga.intel.com/af", `namespace "fpga.intel.com/af": want a lower-case DNS name`},
		{"slash at the end", "fpga.intel.com/", `namespace "fpga.intel.com/": want a lower-case DNS name`},
		{"native", "kubernetes.io", `namespace "kubernetes.io": names in kubernetes.io are reserved`},
		{"quota", "requests.b", "reserved"},
		{"capitals", "FPGA.intel.com", `namespace "FPGA.intel.com": want a lower-case DNS name`},
		{"longest", strings.Repeat("a", 244), ""},
		{"too long", strings.Repeat("a", 245), "at most 244"},
	} {
		t.Run(tc.name, func(t *testing.T) { checkRefusal(t, names.ValidateNamespace(tc.namespace), tc.want) })
	}
}

func checkRefusal(t *testing.T, err error, want string) {
	t.Helper()
	compare.Outcome(t, "error", want, err)
}

func FuzzValidate(f *testing.F) {
	for _, s := range []string{resource, "", "/", "a/", "kubernetes.io/a", "requests.a/b", "a/b/c", "a.-b/c", "é/a"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		err := names.Validate(s)
		if err != nil && len(err.Error()) > 2000 {
			t.Errorf("error of %d bytes", len(err.Error()))
		}
		if err == nil && (strings.Count(s, "/") != 1 || len(s) > 253+64) {
			t.Errorf("accepted %q", s)
		}
	})
}
