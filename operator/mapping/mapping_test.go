package mapping_test

import (
	"os"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"b-com.com/accelerator-device-plugin/operator/api/v2"
	"b-com.com/accelerator-device-plugin/operator/mapping"
	"b-com.com/accelerator-device-plugin/test/compare"
	"b-com.com/accelerator-device-plugin/test/must"
)

const (
	afu   = "d8424dc4a4a3c413f89e433683f9040b"
	hash  = "40007c0623210742000ebc58df6f5343e668b03a"
	iface = "ce48969398f05f33946d560708be108a"
	all1  = "ffffffffffffffffffffffffffffffff"
)

func TestOfFunction(t *testing.T) {
	const af, region = "example.com/af-ce4.d84.zkiWk5jwXzOUbVYHCL4QithCTcSko8QT-J5DNoP5BAs", "example.com/region-" + iface
	for _, tc := range []struct{ name, object, iface, afu, mode, resource, reason string }{
		{"af", "nlb0", iface, afu, "af", af, ""},
		{"region", "nlb0", iface, afu, "region", region, ""},
		{"hash in mode region", "m", iface, hash, "region", region, ""},
		{"shortest hash in mode region", "m", iface, hash[:8], "region", region, ""},
		{"hash in mode af", "m", iface, hash, "af", "", mapping.InvalidAFUID},
		{"short AFU in mode af", "m", iface, afu[:31], "af", "", mapping.InvalidAFUID},
		{"all f, in mode af", "m", iface, all1, "af", "", mapping.InvalidAFUID},
		{"all f, in mode region", "m", iface, all1, "region", "", mapping.InvalidAFUID},
		{"hash that is too short", "m", iface, hash[:7], "region", "", mapping.InvalidAFUID},
		{"hash that is too long", "m", iface, hash + "0", "region", "", mapping.InvalidAFUID},
		{"capitals", "m", iface, strings.ToUpper(afu), "region", "", mapping.InvalidAFUID},
		{"interface that is short", "m", iface[:31], afu, "region", "", mapping.InvalidInterfaceID},
		{"interface all f", "m", all1, afu, "af", "", mapping.InvalidInterfaceID},
		{"mode that only Intel's schema accepts", "m", iface, afu, "xregion", "", mapping.InvalidMode},
		{"no mode", "m", iface, afu, "", "", mapping.InvalidMode},
		{"mode regiondevel is that of FpgaRegion", "m", iface, afu, "regiondevel", "", mapping.InvalidMode},
		{"name that is too long", strings.Repeat("a", 64), iface, afu, "af", "", mapping.InvalidName},
		{"longest name", strings.Repeat("a", 63), iface, afu, "af", af, ""},
		{"name of another resource", "region-" + afu, iface, afu, "region", "", mapping.InvalidName},
		{"name of its own resource", "region-" + iface, iface, afu, "region", region, ""},
		{"name like a resource", "region-lab", iface, afu, "region", region, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			m := mapping.OfFunction("example.com", &v2.AcceleratorFunction{ObjectMeta: metav1.ObjectMeta{Name: tc.object},
				Spec: v2.AcceleratorFunctionSpec{AfuID: tc.afu, InterfaceID: tc.iface, Mode: tc.mode}})
			check(t, m, tc.resource, tc.reason)
		})
	}
}

// The AcceleratorFunction in docs/which-way.md defines the name that the pod below it requests, and becomes the resource of
// the example for mode region.
func TestDocumentedFunction(t *testing.T) {
	text := must.Value(os.ReadFile("../../docs/which-way.md"))(t)
	page := string(text)
	_, example, _ := strings.Cut(page, "```yaml\napiVersion: fpga.intel.com/v2\n")
	object, pod, _ := strings.Cut(example, "```")
	var f v2.AcceleratorFunction
	must.Succeed(t, yaml.UnmarshalStrict([]byte(object), &f))
	m := mapping.OfFunction("fpga.intel.com", &f)
	if m.Problem != nil || !strings.Contains(page, "limits: {"+m.Resource+": 1}") {
		t.Errorf("docs/which-way.md: found no pod with the resource %q, problem %v", m.Resource, m.Problem)
	}
	compare.Contains(t, "docs/which-way.md below the AcceleratorFunction", "limits: {fpga.intel.com/"+f.Name+": 1}", pod)
}

func TestOfRegion(t *testing.T) {
	for _, tc := range []struct{ name, object, iface, resource, reason string }{
		{"region", "d5005", iface, "example.com/region-" + iface, ""},
		{"short", "d5005", iface[:8], "", mapping.InvalidInterfaceID},
		{"name of another resource", "region-" + afu, iface, "", mapping.InvalidName},
	} {
		t.Run(tc.name, func(t *testing.T) {
			m := mapping.OfRegion("example.com", &v2.FpgaRegion{ObjectMeta: metav1.ObjectMeta{Name: tc.object}, Spec: v2.FpgaRegionSpec{InterfaceID: tc.iface}})
			check(t, m, tc.resource, tc.reason)
		})
	}
}

func check(t *testing.T, m mapping.Mapping, resource, reason string) {
	t.Helper()
	got := ""
	if m.Problem != nil {
		got = m.Problem.Reason
	}
	if m.Resource != resource || got != reason {
		t.Errorf("resource %q, problem %v, want %q, %q", m.Resource, m.Problem, resource, reason)
	}
}
