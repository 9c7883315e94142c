package offer_test

import (
	"strings"
	"testing"

	"b-com.com/accelerator-device-plugin/server/offer"
)

func TestValidateName(t *testing.T) {
	for _, tc := range []struct {
		name, resource string
		want           string // part of the error; "" = none
	}{
		{"ours", resource, ""},
		{"all letters that there may be", "a/B_c.d-1", ""},
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
		t.Run(tc.name, func(t *testing.T) { checkRefusal(t, offer.ValidateName(tc.resource), tc.want) })
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
		t.Run(tc.name, func(t *testing.T) { checkRefusal(t, offer.ValidateNamespace(tc.namespace), tc.want) })
	}
}

func checkRefusal(t *testing.T, err error, want string) {
	t.Helper()
	switch {
	case want == "" && err != nil:
		t.Errorf("got %v, want no error", err)
	case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
		t.Errorf("got %v, want an error with %q", err, want)
	}
}

func FuzzValidateName(f *testing.F) {
	for _, s := range []string{resource, "", "/", "a/", "kubernetes.io/a", "requests.a/b", "a/b/c", "a.-b/c", "é/a"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		err := offer.ValidateName(s)
		if err != nil && len(err.Error()) > 2000 {
			t.Errorf("error of %d bytes", len(err.Error()))
		}
		if err == nil && (strings.Count(s, "/") != 1 || len(s) > 253+64) {
			t.Errorf("accepted %q", s)
		}
	})
}
