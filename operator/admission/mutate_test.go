package admission_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	jsonpatch "github.com/evanphx/json-patch/v5"
	"github.com/google/go-cmp/cmp"
	"go.uber.org/zap"
	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	ctrladmission "sigs.k8s.io/controller-runtime/pkg/webhook/admission"
	"sigs.k8s.io/yaml"

	"b-com.com/accelerator-device-plugin/operator/admission"
	"b-com.com/accelerator-device-plugin/operator/api/v2"
	"b-com.com/accelerator-device-plugin/operator/mapping"
	"b-com.com/accelerator-device-plugin/test/compare"
	"b-com.com/accelerator-device-plugin/test/must"
)

const (
	domain = "fpga.intel.com"

	afuA   = "d8424dc4a4a3c413f89e433683f9040b"
	afuB   = "f7df405cbd7acf7222f144b0b93acd18"
	hash   = "40007c0623210742000ebc58df6f5343e668b03a"
	iface  = "ce48969398f05f33946d560708be108a"
	iface2 = "bfac4d851ee856fe8c95865ce1bbaa2d"

	region  = "fpga.intel.com/region-" + iface
	region2 = "fpga.intel.com/region-" + iface2
	afIA    = "fpga.intel.com/af-ce4.d84.zkiWk5jwXzOUbVYHCL4QithCTcSko8QT-J5DNoP5BAs"
	afI2B   = "fpga.intel.com/af-bfa.f7d.v6xNhR7oVv6MlYZc4buqLfffQFy9es9yIvFEsLk6zRg"
)

func function(namespace, name, iface, afu, mode string) *v2.AcceleratorFunction {
	return &v2.AcceleratorFunction{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec:       v2.AcceleratorFunctionSpec{InterfaceID: iface, AfuID: afu, Mode: mode},
	}
}

func fpgaRegion(namespace, name, iface string) *v2.FpgaRegion {
	return &v2.FpgaRegion{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Spec: v2.FpgaRegionSpec{InterfaceID: iface}}
}

// objects are the mappings of the namespaces lab and other.
func objects() []client.Object {
	return []client.Object{
		function("lab", "nlb0", iface, afuA, "region"),
		function("lab", "nlb0-alias", iface, afuA, "region"),
		function("lab", "nlb3", iface, afuB, "region"),
		function("lab", "matrix", iface2, hash, "region"),
		function("lab", "nlb0-pre", iface, afuA, "af"),
		function("lab", "nlb3-pre", iface2, afuB, "af"),
		function("lab", "hash-pre", iface2, hash, "af"),
		function("lab", "short", iface[:8], afuA, "region"),
		function("lab", "dead", strings.Repeat("f", 32), afuA, "region"),
		function("lab", "dead-afu", iface, strings.Repeat("f", 32), "af"),
		function("lab", "odd", iface, afuA, "afx"),
		function("lab", "region-"+iface2, iface, afuA, "region"),
		function("lab", strings.Repeat("n", 64), iface, afuA, "region"),
		function("lab", "both", iface, afuA, "region"),
		fpgaRegion("lab", "both", iface),
		fpgaRegion("lab", "devel", iface2),
		fpgaRegion("lab", "devel-short", iface2[:31]),
		function("other", "elsewhere", iface, afuA, "region"),
		function("other", "nlb0", iface2, afuB, "region"),
		fpgaRegion("devel", "card", iface),
		function("wide", "y-nlb0", iface, afuA, "region"),
		fpgaRegion("wide", "z-devel", iface),
	}
}

// container returns the YAML of a container. A part is a resource, "NAME=UNITS" for limits and
// requests or "limits:NAME=UNITS" for one of them, or a variable in JSON.
func container(name string, parts ...string) string {
	limits, requests, env := "", "", ""
	for _, p := range parts {
		in, rest, one := strings.Cut(p, ":")
		switch {
		case strings.HasPrefix(p, "{"):
			env += "\n    - " + p
			continue
		case !one:
			in, rest = "", p
		}
		key, units, _ := strings.Cut(rest, "=")
		line := fmt.Sprintf("\n        %s: %q", key, units)
		if in != "requests" {
			limits += line
		}
		if in != "limits" {
			requests += line
		}
	}
	s := "\n  - name: " + name + "\n    image: i\n    resources:"
	if limits != "" {
		s += "\n      limits:" + limits
	}
	if requests != "" {
		s += "\n      requests:" + requests
	}
	if limits+requests == "" {
		s += " {}"
	}
	if env != "" {
		s += "\n    env:" + env
	}
	return s
}

func pod(containers ...string) string {
	return "apiVersion: v1\nkind: Pod\nmetadata: {name: p, namespace: lab}\nspec:\n  containers:" + strings.Join(containers, "")
}

func v(name, value string) string {
	return fmt.Sprintf(`{"name": %q, "value": %q}`, name, value)
}

// pairs returns the variables of pairs. The ids are interface, AFU, interface, AFU, and so on.
func pairs(ids ...string) (env []string) {
	for i := 0; i < len(ids); i += 2 {
		env = append(env, v(fmt.Sprintf("FPGA_REGION_%d", i/2+1), ids[i]), v(fmt.Sprintf("FPGA_AFU_%d", i/2+1), ids[i+1]))
	}
	return env
}

func with(parts []string, more ...string) []string { return append(parts, more...) }

const valueFrom = `{"name": "POD", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name", "apiVersion": "v1"}}}`

var admitted = []struct {
	name      string
	namespace string // "" is lab
	pod, want string // YAML; want "" is unchanged
	warns     int
}{
	{name: "one alias once and another one twice",
		pod:  pod(container("c", domain+"/nlb0=1", domain+"/nlb0-alias=2", "cpu=1", v("SOME_VAR", "fake value"))),
		want: pod(container("c", with([]string{region + "=3", "cpu=1", v("SOME_VAR", "fake value")}, pairs(iface, afuA, iface, afuA, iface, afuA)...)...))},
	{name: "two functions of one interface",
		pod:  pod(container("c", domain+"/nlb3=1", domain+"/nlb0=1")),
		want: pod(container("c", with([]string{region + "=2"}, pairs(iface, afuA, iface, afuB)...)...))},
	{name: "two interfaces, one function from an AOCX",
		pod:  pod(container("c", domain+"/nlb3=1", domain+"/matrix=1")),
		want: pod(container("c", with([]string{region + "=1", region2 + "=1"}, pairs(iface2, hash, iface, afuB)...)...))},
	{name: "mode af", pod: pod(container("c", domain+"/nlb0-pre=2", v("A", "b"))), want: pod(container("c", afIA+"=2", v("A", "b")))},
	{name: "two functions in mode af", pod: pod(container("c", domain+"/nlb0-pre=1", domain+"/nlb3-pre=1")), want: pod(container("c", afIA+"=1", afI2B+"=1"))},
	{name: "a region to program", pod: pod(container("c", domain+"/devel=1")), want: pod(container("c", region2+"=1"))},
	{name: "real name in mode af", pod: pod(container("c", afIA+"=1", v("A", "b")))},
	{name: "real name of a region", pod: pod(container("c", region+"=1"))},
	{name: "real name of a region to program", namespace: "devel", pod: pod(container("c", region+"=1"))},
	{name: "real name and alias", pod: pod(container("c", afIA+"=1", domain+"/nlb0-pre=2", domain+"/nlb3-pre=1")), want: pod(container("c", afIA+"=3", afI2B+"=1"))},
	{name: "real name and alias of a region", pod: pod(container("c", region+"=1", domain+"/nlb3=1")),
		want: pod(container("c", with([]string{region + "=2"}, pairs(iface, afuB)...)...))},
	{name: "a real name before an object of that name", pod: pod(container("c", region2+"=1"))},
	{name: "valueFrom", pod: pod(container("c", domain+"/nlb0=1", valueFrom, v("A", "$(POD)"))),
		want: pod(container("c", with([]string{region + "=1", valueFrom, v("A", "$(POD)")}, pairs(iface, afuA)...)...))},
	{name: "variables of the user", warns: 5,
		pod: pod(container("c", domain+"/nlb0=1", v("FPGA_REGION", "x"), v("A", "b"), v("FPGA_REGION_1", iface2), v("FPGA_AFU_1", afuB),
			strings.ReplaceAll(valueFrom, "POD", "FPGA_AFU_7"), v("FPGA", "c"), v("FPGA_REGIONS", "x"))),
		want: pod(container("c", with([]string{region + "=1", v("A", "b"), v("FPGA", "c")}, pairs(iface, afuA)...)...))},
	{name: "variables of the user alone", warns: 2, pod: pod(container("c", domain+"/nlb0-pre=1", v("FPGA_REGION_1", iface), v("FPGA_AFU_1", afuA))),
		want: pod(container("c", afIA+"=1"))},
	{name: "variables of the user in another container", warns: 1, pod: pod(container("a", v("FPGA_REGION_1", iface)), container("b", domain+"/nlb0-pre=1")),
		want: pod(container("a"), container("b", afIA+"=1"))},
	{name: "a pair that the namespace has, for a name", warns: 1, pod: pod(container("c", with([]string{domain + "/nlb0=1"}, pairs(iface, afuB)...)...)),
		want: pod(container("c", with([]string{region + "=1"}, pairs(iface, afuA)...)...))},
	{name: "half a pair", namespace: "devel", warns: 1, pod: pod(container("c", region+"=1", v("FPGA_REGION_1", iface))), want: pod(container("c", region+"=1"))},
	{name: "a pair twice", warns: 0, pod: pod(container("c", with(with([]string{region + "=1"}, pairs(iface, afuA)...), pairs(iface, afuA)...)...)),
		want: pod(container("c", with([]string{region + "=1"}, pairs(iface, afuA)...)...))},
	{name: "a pair that the namespace does not have", warns: 2, pod: pod(container("c", with([]string{region2 + "=1"}, pairs(iface2, afuB)...)...)),
		want: pod(container("c", region2+"=1"))},
	{name: "a pair that the namespace has", pod: pod(container("c", with([]string{region2 + "=1"}, pairs(iface2, hash)...)...))},
	{name: "a pair too many", pod: pod(container("c", with([]string{region + "=1"}, pairs(iface, afuA, iface, afuB)...)...)), warns: 2,
		want: pod(container("c", with([]string{region + "=1"}, pairs(iface, afuA)...)...))},
	{name: "a pair of a namespace that may program", namespace: "devel", warns: 2, pod: pod(container("c", with([]string{region + "=1"}, pairs(iface, afuA)...)...)),
		want: pod(container("c", region+"=1"))},
	{name: "pairs are of one container each",
		pod: pod(container("a", domain+"/nlb0=1"), container("b"), container("c", domain+"/nlb3=2")),
		want: pod(container("a", with([]string{region + "=1"}, pairs(iface, afuA)...)...), container("b"),
			container("c", with([]string{region + "=2"}, pairs(iface, afuB, iface, afuB)...)...))},
	{name: "region and af in two containers", pod: pod(container("a", domain+"/nlb0-pre=1"), container("b", domain+"/devel=1")),
		want: pod(container("a", afIA+"=1"), container("b", region2+"=1"))},
	{name: "init container and sidecar",
		pod:  pod(container("c", domain+"/nlb0-pre=1")) + "\n  initContainers:" + container("i", domain+"/nlb0-pre=1", v("A", "b")) + container("s", domain+"/nlb0-pre=1") + "\n    restartPolicy: Always",
		want: pod(container("c", afIA+"=1")) + "\n  initContainers:" + container("i", afIA+"=1", v("A", "b")) + container("s", afIA+"=1") + "\n    restartPolicy: Always"},
	{name: "init container in mode region",
		pod:  pod(container("c")) + "\n  initContainers:" + container("i", domain+"/nlb0=1", valueFrom),
		want: pod(container("c")) + "\n  initContainers:" + container("i", with([]string{region + "=1", valueFrom}, pairs(iface, afuA)...)...)},
	{name: "same name in another namespace", namespace: "other", pod: pod(container("c", domain+"/nlb0=1")),
		want: pod(container("c", with([]string{region2 + "=1"}, pairs(iface2, afuB)...)...))},
	{name: "no units", pod: pod(container("c", domain+"/nlb0=0")), want: pod(container("c", region+"=0"))},
	{name: "units in thousandths", pod: pod(container("c", domain+"/nlb0-pre=2000m")), want: pod(container("c", afIA+"=2"))},
	{name: "the same number, written differently", pod: pod(container("c", "limits:"+domain+"/nlb0-pre=2", "requests:"+domain+"/nlb0-pre=2000m")), want: pod(container("c", afIA+"=2"))},
	{name: "no name of the domain", pod: pod(container("c", "example.com/nlb0=1", "fpga.intel.com.example/x=1", v("FPGA_AFU_1", "x")))},
	{name: "no containers", pod: "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {}"},
	{name: "a field of a later Kubernetes", pod: pod(container("c", domain+"/nlb0-pre=1")) + "\n    laterKubernetes: 1", want: pod(container("c", afIA+"=1")) + "\n    laterKubernetes: 1"},
}

const (
	known   = `usable names: devel, matrix, nlb0, nlb0-alias, nlb0-pre, nlb3, nlb3-pre`
	unknown = `found no AcceleratorFunction or FpgaRegion of that name in this namespace; ` + known
)

// denied contains pods with the reasons why they are denied.
var denied = []struct{ name, namespace, pod, want string }{
	{"unknown name", "", pod(container("a"), container("c", domain+"/nlb4=1")), `container "c": resource "fpga.intel.com/nlb4": ` + unknown},
	{"unknown name in an init container", "", pod(container("a")) + "\n  initContainers:" + container("i", domain+"/nlb4=1"), `init container "i": resource "fpga.intel.com/nlb4": ` + unknown},
	{"real name of no object", "devel", pod(container("c", afIA+"=1")),
		`container "c": resource "` + afIA + `": found no AcceleratorFunction or FpgaRegion of that name in this namespace; usable names: card`},
	{"capitals", "", pod(container("c", domain+"/NLB0=1")), `container "c": resource "fpga.intel.com/NLB0": ` + unknown},
	{"real name in capitals", "", pod(container("c", domain+"/region-"+strings.ToUpper(iface)+"=1")), `container "c": resource "fpga.intel.com/region-CE48969398F05F33946D560708BE108A": ` + unknown},
	{"other namespace", "", pod(container("c", domain+"/elsewhere=1")), `container "c": resource "fpga.intel.com/elsewhere": ` + unknown},
	{"namespace without objects", "empty", pod(container("c", domain+"/nlb0=1")),
		`container "c": resource "fpga.intel.com/nlb0": found no AcceleratorFunction or FpgaRegion of that name in this namespace; usable names: none`},
	{"only limits", "", pod(container("c", "limits:"+domain+"/nlb0=1")), `container "c": resource "fpga.intel.com/nlb0": found 1 in limits and none in requests, want the same number in both`},
	{"only requests", "", pod(container("c", "requests:"+domain+"/nlb0=1")), `container "c": resource "fpga.intel.com/nlb0": found none in limits and 1 in requests, want the same number in both`},
	{"only limits, of no units", "", pod(container("c", "limits:"+domain+"/nlb0=0")), `container "c": resource "fpga.intel.com/nlb0": found 0 in limits and none in requests, want the same number in both`},
	{"only requests, of no units", "", pod(container("c", "requests:"+domain+"/nlb0=0")), `container "c": resource "fpga.intel.com/nlb0": found none in limits and 0 in requests, want the same number in both`},
	{"unequal", "", pod(container("c", "limits:"+domain+"/nlb0=2", "requests:"+domain+"/nlb0=1")), `container "c": resource "fpga.intel.com/nlb0": found 2 in limits and 1 in requests, want the same number in both`},
	{"a fraction", "", pod(container("c", domain+"/nlb0=1.1")), `container "c": resource "fpga.intel.com/nlb0": found 1100m units, want a whole number`},
	{"less than none", "", pod(container("c", domain+"/nlb0=-1")), `container "c": resource "fpga.intel.com/nlb0": found -1 units, want a whole number`},
	{"more than a node has", "", pod(container("c", domain+"/nlb0=1025")), `container "c": resource "fpga.intel.com/nlb0": found 1025 units, want at most 1024`},
	{"more than can be counted", "", pod(container("c", domain+"/nlb0=1e30")), `container "c": resource "fpga.intel.com/nlb0": found 1e30 units, want at most 1024`},
	{"more than a node has, by two names", "", pod(container("c", domain+"/nlb0=1000", domain+"/nlb3=25")), `container "c": resource "fpga.intel.com/nlb3": found 1025 units together with other names, want at most 1024`},
	{"more than a node has, in two containers", "", pod(container("b", domain+"/nlb0=1000"), container("c", domain+"/nlb3=25")),
		`container "c": found 1025 units of fpga.intel.com/ in the containers so far, want at most 1024`},
	{"unknown mode", "", pod(container("c", domain+"/odd=1")), `container "c": resource "fpga.intel.com/odd": AcceleratorFunction odd cannot be used: mode: found "afx", want "af" or "region"; ` + known},
	{"region and af mixed", "", pod(container("c", domain+"/nlb0=1", domain+"/nlb0-pre=1")),
		`container "c": resource "fpga.intel.com/nlb0-pre": found mode af, and mode region for resource "fpga.intel.com/nlb0", want one mode in a container`},
	{"region and regiondevel mixed", "", pod(container("c", domain+"/nlb0=1", domain+"/devel=1")),
		`container "c": resource "fpga.intel.com/nlb0": found mode region, and mode regiondevel for resource "fpga.intel.com/devel", want one mode in a container`},
	{"region and real name of af mixed", "", pod(container("c", afIA+"=1", domain+"/nlb0=1")),
		`container "c": resource "fpga.intel.com/nlb0": found mode region, and mode af for resource "` + afIA + `", want one mode in a container`},
	{"region and regiondevel mixed, beside a real name of both", "wide", pod(container("c", region+"=1", domain+"/y-nlb0=1", domain+"/z-devel=1")),
		`container "c": resource "fpga.intel.com/z-devel": found mode regiondevel, and mode region for resource "` + region + `", want one mode in a container`},
	{"a function and a region of one name", "", pod(container("c", domain+"/both=1")),
		`container "c": resource "fpga.intel.com/both": found both an AcceleratorFunction and an FpgaRegion of that name, want one`},
	{"hash of an AOCX in mode af", "", pod(container("c", domain+"/hash-pre=1")), "32 hexadecimal digits in lower case, not all f; the hash of an AOCX is possible in mode region only; usable names: "},
	{"an AFU id of all f", "", pod(container("c", domain+"/dead-afu=1")), `afuId: found "ffffffffffffffffffffffffffffffff" (32 characters), want in mode af`},
	{"an interface id that is short", "", pod(container("c", domain+"/short=1")), `interfaceId: found "ce489693" (8 characters), want the interface id of a card: 32`},
	{"an interface id that is short, to program", "", pod(container("c", domain+"/devel-short=1")), `interfaceId: found "bfac4d851ee856fe8c95865ce1bbaa2" (31 characters)`},
	{"an interface id of all f", "", pod(container("c", domain+"/dead=1")), `interfaceId: found "ffffffffffffffffffffffffffffffff" (32 characters)`},
	{"more variables than pairs of all units", "", pod(container("c", with(slices.Repeat([]string{v("FPGA_AFU", "")}, 2049), domain+"/nlb0=1")...)), `container "c": found 2049 variables FPGA_REGION… and FPGA_AFU…, want at most 2048`},
	{"a name that is too long", "", pod(container("c", domain+"/"+strings.Repeat("n", 64)+"=1")), "cannot be used: name: found 64 characters, want at most 63"},
}

func testScheme(t testing.TB) *runtime.Scheme {
	t.Helper()
	scheme := runtime.NewScheme()
	must.Succeed(t, v2.AddToScheme(scheme))
	return scheme
}

func newHandler(t testing.TB, objects ...client.Object) *admission.Handler {
	t.Helper()
	reader := fake.NewClientBuilder().WithScheme(testScheme(t)).WithObjects(objects...).Build()
	return admission.NewHandler(reader, reader, domain, nil, zap.NewNop())
}

func request(namespace string, raw []byte) ctrladmission.Request {
	if namespace == "" {
		namespace = "lab"
	}
	return ctrladmission.Request{AdmissionRequest: admissionv1.AdmissionRequest{
		UID: types.UID("u"), Operation: admissionv1.Create, Namespace: namespace,
		Resource: metav1.GroupVersionResource{Version: "v1", Resource: "pods"},
		Object:   runtime.RawExtension{Raw: raw},
	}}
}

func toJSON(t testing.TB, s string) []byte {
	t.Helper()
	raw, err := yaml.YAMLToJSON([]byte(s))
	if err != nil {
		t.Fatalf("%v in\n%s", err, s)
	}
	return raw
}

// answer returns a handler's answer, and the pod with its patch applied.
func answer(t testing.TB, h *admission.Handler, namespace string, raw []byte) ([]byte, ctrladmission.Response) {
	t.Helper()
	req := request(namespace, raw)
	resp := h.Handle(context.Background(), req)
	must.Succeed(t, resp.Complete(req))
	if len(resp.Patch) == 0 {
		return raw, resp
	}
	patch := must.Value(jsonpatch.DecodePatch(resp.Patch))(t)
	after, err := patch.Apply(raw)
	if err != nil {
		t.Fatalf("patch %s: %v", resp.Patch, err)
	}
	return after, resp
}

func comparePods(t testing.TB, want, got []byte) {
	t.Helper()
	var w, g any
	must.Succeed(t, json.Unmarshal(want, &w))
	must.Succeed(t, json.Unmarshal(got, &g))
	compare.Values(t, "pod", w, g)
}

func TestAdmitted(t *testing.T) {
	h := newHandler(t, objects()...)
	for _, tc := range admitted {
		t.Run(tc.name, func(t *testing.T) {
			raw := toJSON(t, tc.pod)
			want := raw
			if tc.want != "" {
				want = toJSON(t, tc.want)
			}
			got, resp := answer(t, h, tc.namespace, raw)
			if !resp.Allowed {
				t.Fatalf("denied: %s", resp.Result.Message)
			}
			if tc.want == "" && resp.Patch != nil {
				t.Errorf("patch %s, want none", resp.Patch)
			}
			comparePods(t, want, got)
			compare.Equal(t, fmt.Sprintf("warnings %q", resp.Warnings), tc.warns, len(resp.Warnings))
			again, resp := answer(t, h, tc.namespace, got)
			if !resp.Allowed || resp.Patch != nil || len(resp.Warnings) != 0 {
				t.Errorf("the second time: allowed %v, patch %s, warnings %q, want no patch", resp.Allowed, resp.Patch, resp.Warnings)
			}
			comparePods(t, got, again)
		})
	}
}

func TestDenied(t *testing.T) {
	h := newHandler(t, objects()...)
	for _, tc := range denied {
		t.Run(tc.name, func(t *testing.T) {
			_, resp := answer(t, h, tc.namespace, toJSON(t, tc.pod))
			if resp.Allowed || resp.Patch != nil || resp.Result.Code != 403 {
				t.Fatalf("allowed %v, code %d, patch %s, want a denial", resp.Allowed, resp.Result.Code, resp.Patch)
			}
			if whole := strings.HasPrefix(tc.want, "container") || strings.HasPrefix(tc.want, "init"); whole && resp.Result.Message != tc.want || !strings.Contains(resp.Result.Message, tc.want) {
				t.Errorf("message\n%s\nwant\n%s", resp.Result.Message, tc.want)
			}
		})
	}
}

// An error lists at most 20 names.
func TestManyNames(t *testing.T) {
	var all []v2.AcceleratorFunction
	for i := range 100 {
		all = append(all, *function("lab", fmt.Sprintf("f%03d", i), iface, afuA, "region"))
	}
	table := mapping.NewTable(domain, all, nil)
	if _, err := table.Find("g"); err == nil || !strings.HasSuffix(err.Error(), "f018, f019, and 80 more") {
		t.Errorf("error %v, want 20 names and the number of the others", err)
	}
}

// Mutate does not modify its argument, which is the base of the patch.
func TestMutateCopies(t *testing.T) {
	raw := toJSON(t, admitted[0].pod)
	p := must.Value(admission.ParsePod(raw))(t)
	before := must.Value(admission.ParsePod(raw))(t)
	must.Value(admission.Mutate(p, mapping.NewTable(domain, []v2.AcceleratorFunction{*function("", "nlb0", iface, afuA, "region"), *function("", "nlb0-alias", iface, afuA, "region")}, nil)))(t)
	if diff := cmp.Diff(before, p); diff != "" {
		t.Errorf("pod changed (-before +after):\n%s", diff)
	}
}
