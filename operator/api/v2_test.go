package api_test

import (
	"os"
	"strings"
	"testing"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"

	"b-com.com/accelerator-device-plugin/test/compare"
	"b-com.com/accelerator-device-plugin/test/must"
)

func readV2(t *testing.T) map[string]*apiextensions.CustomResourceDefinition {
	t.Helper()
	return readAll(t, "fpga.intel.com", "v2")
}

// The API server accepts the CRDs.
func TestV2CRDs(t *testing.T) {
	for kind, crd := range readV2(t) {
		if crd.Spec.Scope != apiextensions.NamespaceScoped || len(crd.Spec.Names.ShortNames) != 1 {
			t.Errorf("%s: scope %s, short names %v", kind, crd.Spec.Scope, crd.Spec.Names.ShortNames)
		}
	}
}

// The variable MAPPINGS names another file to test, such as Intel's collection of mappings.
func TestV2Samples(t *testing.T) {
	all := readV2(t)
	for _, file := range []string{"v2/testdata/samples.yaml", os.Getenv("MAPPINGS")} {
		if file == "" {
			continue
		}
		raw := must.Value(os.ReadFile(file))(t)
		objects := documents(t, raw)
		for _, object := range objects {
			if err := accepts(t, all[object["kind"].(string)], object); err != nil {
				t.Errorf("%s: %v: %v", file, object["metadata"], err)
			}
		}
		t.Logf("%s: %d objects", file, len(objects))
	}
}

func TestV2Schema(t *testing.T) {
	all := readV2(t)
	function := func(afu, iface, mode string) map[string]any {
		return map[string]any{"afuId": afu, "interfaceId": iface, "mode": mode}
	}
	hex := strings.Repeat("0123456789abcdef", 3)
	for _, tc := range []struct {
		name, kind string
		spec       any
		ok         bool
	}{
		{"shortest ids", "AcceleratorFunction", function(hex[:8], hex[:8], "af"), true},
		{"longest ids", "AcceleratorFunction", function(hex[:40], hex[:32], "region"), true},
		{"AFU too short", "AcceleratorFunction", function(hex[:7], hex[:32], "af"), false},
		{"AFU too long", "AcceleratorFunction", function(hex[:41], hex[:32], "af"), false},
		{"interface too short", "AcceleratorFunction", function(hex[:32], hex[:7], "af"), false},
		{"interface too long", "AcceleratorFunction", function(hex[:32], hex[:33], "af"), false},
		{"capitals", "AcceleratorFunction", function(strings.ToUpper(hex[:32]), hex[:32], "af"), false},
		{"dashes", "AcceleratorFunction", function("d8424dc4-a4a3-c413-f89e-433683f9040b", hex[:32], "af"), false},
		{"two lines", "AcceleratorFunction", function(hex[:32]+"\n", hex[:32], "af"), false},
		{"mode that begins with af", "AcceleratorFunction", function(hex[:32], hex[:32], "afx"), false},
		{"mode that ends with region", "AcceleratorFunction", function(hex[:32], hex[:32], "xregion"), false},
		{"mode of FpgaRegion", "AcceleratorFunction", function(hex[:32], hex[:32], "regiondevel"), false},
		{"no mode", "AcceleratorFunction", map[string]any{"afuId": hex[:32], "interfaceId": hex[:32]}, false},
		{"no spec", "AcceleratorFunction", nil, false},
		{"unknown key", "AcceleratorFunction", map[string]any{"afuId": hex[:32], "interfaceId": hex[:32], "mode": "af", "afuID": "x"}, false},
		{"region", "FpgaRegion", map[string]any{"interfaceId": hex[:32]}, true},
		{"region, too short", "FpgaRegion", map[string]any{"interfaceId": hex[:7]}, false},
		{"region, without interface", "FpgaRegion", map[string]any{}, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			object := map[string]any{"apiVersion": "fpga.intel.com/v2", "kind": tc.kind, "metadata": map[string]any{"name": "n"}}
			if tc.spec != nil {
				object["spec"] = tc.spec
			}
			compare.Equal(t, "accepted", tc.ok, accepts(t, all[tc.kind], object) == nil)
		})
	}
}

func TestV2Generated(t *testing.T) { generated(t, "v2", 2) }
