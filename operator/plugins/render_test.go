package plugins

import (
	"context"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"b-com.com/accelerator-device-plugin/operator/api/v1"
	"b-com.com/accelerator-device-plugin/test/compare"
	"b-com.com/accelerator-device-plugin/test/golden"
	"b-com.com/accelerator-device-plugin/test/must"
)

var settings = Settings{Version: "v1.2.3", Image: "registry.example.com/accelerator-device-plugin", Namespace: "fpga-system"}

func newRenderer(t testing.TB) *Renderer {
	t.Helper()
	r := must.Value(NewRenderer(settings))(t)
	return r
}

// object returns an FpgaDevicePlugin with this spec, in YAML.
func object(t testing.TB, spec string) *v1.FpgaDevicePlugin {
	t.Helper()
	p := &v1.FpgaDevicePlugin{ObjectMeta: metav1.ObjectMeta{Name: "sample", UID: "1234"}}
	must.Succeed(t, yaml.UnmarshalStrict([]byte(spec), &p.Spec))
	return p
}

// rendered returns the objects in YAML, or the error.
func rendered(t testing.TB, p *v1.FpgaDevicePlugin) (string, error) {
	t.Helper()
	objects, err := newRenderer(t).Render(context.Background(), p)
	var all []string
	for _, o := range objects {
		text := must.Value(yaml.Marshal(o.Object))(t)
		all = append(all, string(text))
	}
	return strings.Join(all, "---\n"), err
}

func TestRender(t *testing.T) {
	files, err := filepath.Glob("testdata/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatal(err, files)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			raw := must.Value(os.ReadFile(file))(t)
			var p v1.FpgaDevicePlugin
			must.Succeed(t, yaml.UnmarshalStrict(raw, &p))
			p.UID = "1234"
			got := must.Value(rendered(t, &p))(t)
			if strings.HasSuffix(file, "intel.yaml") { // everything.golden shows the metadata
				got = regexp.MustCompile(`(?m)^metadata:\n(  .*\n)+`).ReplaceAllString(got, "")
			}
			golden.Compare(t, strings.TrimSuffix(file, ".yaml")+".golden", got)
		})
	}
}

func TestRefused(t *testing.T) {
	for _, tc := range []struct{ name, spec, want string }{
		{"unknown key", "values: {colour: red}", "values: additional properties 'colour' not allowed"},
		{"wrong type", "values: {minReadySeconds: soon}", "values.minReadySeconds: got string, want integer"},
		{"scalar for a table", "values: {image: x}", "values.image: got string, want object"},
		{"unknown mode", "values: {config: {mode: afu}}", "values.config.mode: value must be one of"},
		{"two mistakes", "values: {config: {mode: afu}, events: 1}", "values.events: got number, want boolean"},
		{"error of a template", "values: {config: {events: true}}", "values: config.events: set by the chart: want the value events, outside of config"},
		{"programming without its mode", "{mode: region, values: {config: {mode: af}}}", "values: programming.enabled: found true with config.mode af"},
		{"DRA driver", "values: {api: dra}", `spec.values.api: found "dra", want devicePlugin: install the DRA driver with Helm`},
		{"object of OpenShift", "values: {securityContextConstraints: true}", "spec.values.securityContextConstraints: found true, want false"},
		{"object of Node Feature Discovery", "values: {nodeFeatureDiscovery: {rule: true}}", "spec.values.nodeFeatureDiscovery.rule: found true, want false"},
		{"DRA driver that finishes claims", "values: {dra: {finishClaims: true}}", "spec.values.dra.finishClaims: found true, want false"},
		{"unknown API", "values: {api: [a]}", `spec.values.api: found "[a]", want devicePlugin`},
		{"name", "values: {fullnameOverride: x}", "spec.values.fullnameOverride: found a value, want none"},
		{"short name", "values: {nameOverride: x}", "spec.values.nameOverride: found a value, want none"},
		{"account", "values: {serviceAccount: {name: default}}", `spec.values.serviceAccount.name: found "default", want a name that contains accelerator-device-plugin`},
		{"tag of the image", "image: 'x:a b'", "values.image.tag: 'a b' does not match pattern"},
		{"control character", `tolerations: [{key: "a\x7F"}]`, `values: found "a\x7f", want only letters`},
		{"toleration", "tolerations: [{operator: Sometimes}]", "values.tolerations.0.operator: value must be one of"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := rendered(t, object(t, tc.spec))
			if err == nil || got != "" || !strings.Contains(err.Error(), tc.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("error %v, want %q in one line; objects:\n%s", err, tc.want, got)
			}
		})
	}
}

// podSpec returns the pod spec of the DaemonSet of p.
func podSpec(t *testing.T, p *v1.FpgaDevicePlugin) corev1.PodSpec {
	t.Helper()
	objects := must.Value(newRenderer(t).Render(context.Background(), p))(t)
	last := objects[len(objects)-1]
	if last.GetKind() != "DaemonSet" {
		t.Fatalf("last object: %s", last.GetKind())
	}
	var daemonSet appsv1.DaemonSet
	must.Succeed(t, runtime.DefaultUnstructuredConverter.FromUnstructured(last.Object, &daemonSet))
	return daemonSet.Spec.Template.Spec
}

func TestImage(t *testing.T) {
	const own = "registry.example.com/accelerator-device-plugin:v1.2.3"
	digest := "@sha256:" + strings.Repeat("0a", 32)
	for _, tc := range []struct{ spec, want string }{
		{"{}", own},
		{"image: intel/intel-fpga-plugin:0.34.0", own},
		{"image: intel-fpga-plugin", own},
		{"image: registry:5000/a/intel-fpga-plugin" + digest, own},
		{"image: intel/intel-fpga-plugin-b", "intel/intel-fpga-plugin-b:v1.2.3"},
		{"image: registry:5000/adp", "registry:5000/adp:v1.2.3"},
		{"image: registry:5000/adp:v7", "registry:5000/adp:v7"},
		{"image: registry:5000/adp:v7" + digest, "registry:5000/adp" + digest},
		{"values: {image: {tag: v8}}", "registry.example.com/accelerator-device-plugin:v8"},
		{"{image: 'a/b:v7', values: {image: {repository: c}}}", "c:v7"},
	} {
		compare.Equal(t, tc.spec, tc.want, podSpec(t, object(t, tc.spec)).Containers[0].Image)
	}
}

// The image for bitstreams comes from the plugin's registry, unless the values specify another.
func TestBitstreamsImage(t *testing.T) {
	for _, tc := range []struct{ image, values, want string }{
		{"accelerator-device-plugin", "", "accelerator-fpga-registry:v1.2.3"},
		{"localhost/accelerator-device-plugin", "", "localhost/accelerator-fpga-registry:v1.2.3"},
		{"registry:5000/a/accelerator-device-plugin:v7", "", "registry:5000/a/accelerator-fpga-registry:v1.2.3"},
		{"registry:5000/a/accelerator-device-plugin", ", image: {repository: b.example.com/c, tag: v8}", "b.example.com/c:v8"},
	} {
		r := must.Value(NewRenderer(Settings{Version: "v1.2.3", Image: tc.image, Namespace: "fpga-system"}))(t)
		objects, err := r.Render(t.Context(), object(t, "values: {bitstreams: {references: [registry.example.com/nlb:1.0]"+tc.values+"}}"))
		if err != nil {
			t.Errorf("%s: %v", tc.image, err)
			continue
		}
		var found []string
		for _, o := range objects {
			if strings.HasSuffix(o.GetName(), "-bitstreams") && o.GetKind() == "DaemonSet" {
				containers, _, _ := unstructured.NestedSlice(o.Object, "spec", "template", "spec", "containers")
				for _, c := range containers {
					found = append(found, c.(map[string]any)["image"].(string))
				}
			}
		}
		if !slices.Equal(found, []string{tc.want}) {
			t.Errorf("%s%s: found images %q, want %s", tc.image, tc.values, found, tc.want)
		}
	}
}

// Values override fields, and null removes a default, as with Helm.
func TestValuesOverride(t *testing.T) {
	spec := podSpec(t, object(t, "{nodeSelector: {a: u, b: u}, values: {nodeSelector: {b: v, c: v}, tolerations: [], priorityClassName: null}}"))
	compare.Values(t, "node selector", map[string]string{"a": "u", "b": "v", "c": "v"}, spec.NodeSelector)
	if len(spec.Tolerations) != 0 || spec.PriorityClassName != "" {
		t.Errorf("tolerations %v, priority class %q", spec.Tolerations, spec.PriorityClassName)
	}
}

// An object can make the hook program a card at each start. An annotation that can select mode regiondevel does so,
// too.
func TestProgrammingAlways(t *testing.T) {
	for spec, want := range map[string]bool{
		"{mode: region}": false, "{mode: region, values: {programming: {always: true}}}": true,
		"{mode: region, values: {nodeAnnotation: true}}": true, "{mode: region, values: {nodeAnnotation: true, programming: {always: false}}}": false,
	} {
		text, err := rendered(t, object(t, spec))
		if err != nil || strings.Contains(text, "- --always") != want {
			t.Errorf("%s: error %v, --always %t, want %t", spec, err, !want, want)
		}
	}
}

// leaves calls f with each string below a value, in the order of the keys, and replaces the string by
// the result.
func leaves(value any, f func(string) string) any {
	switch value := value.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(value)) {
			value[key] = leaves(value[key], f)
		}
	case []any:
		for i := range value {
			value[i] = leaves(value[i], f)
		}
	case string:
		return f(value)
	}
	return value
}

// Values are data: no string in them is run as a template, or ends its line in the manifests.
func TestInjection(t *testing.T) {
	r := newRenderer(t)
	count := func() int {
		var values any
		n := 0
		must.Succeed(t, yaml.Unmarshal([]byte(everything), &values))
		leaves(values, func(s string) string { n++; return s })
		return n
	}()
	// shape returns the objects with all strings empty.
	shape := func(objects []*unstructured.Unstructured) (all []any) {
		for _, o := range objects {
			all = append(all, leaves(o.DeepCopy().Object, func(string) string { return "" }))
		}
		return all
	}
	p := object(t, "mode: region")
	p.Spec.Values = &runtime.RawExtension{Raw: must.Value(yaml.YAMLToJSON([]byte(everything)))(t)}
	want := shape(must.Value(r.Render(context.Background(), p))(t))
	for _, payload := range []string{"{{ fail \"run\" }}", "x\n---\napiVersion: v1\nkind: Secret\nmetadata: {name: x}\n#", "x\n      hostPID: true\n      #", "x, operator: In}\n              - {key: y",
		"x\n\u2028y: z", "x\n\u2029y: z", "x\n\u0085y: z", "/x\u0085y", "/x\u2028y:/z", "x\r\ny: z", "/x\x7f\x00", "1", "1e3", "true", "null", "2001-01-01"} {
		accepted := 0
		for n := range count {
			var values any
			must.Succeed(t, yaml.Unmarshal([]byte(everything), &values))
			was, i := "", 0
			values = leaves(values, func(s string) string {
				if i++; i-1 == n {
					was = s
					return payload
				}
				return s
			})
			raw := must.Value(json.Marshal(values))(t)
			p := object(t, "mode: region")
			p.Spec.Values = &runtime.RawExtension{Raw: raw}
			objects, err := r.Render(context.Background(), p)
			if err != nil {
				if !strings.Contains(err.Error(), "values.") && !strings.Contains(err.Error(), "want only letters, marks") {
					t.Errorf("%q instead of %q: %v, want an error that contains the path", payload, was, err)
				}
				continue
			}
			accepted++
			whole := false // the payload is in the objects unchanged
			for _, o := range objects {
				leaves(o.Object, func(s string) string {
					whole = whole || strings.Contains(s, payload)
					return s
				})
			}
			if diff := cmp.Diff(want, shape(objects)); diff != "" || !whole {
				t.Errorf("%q instead of %q: whole %v, shape (-want +got):\n%s", payload, was, whole, diff)
			}
		}
		if accepted == 0 && !strings.ContainsAny(payload, "\u0085\u2028\u2029\r\x7f") {
			t.Errorf("%q is refused in all values, want at least one that accepts it", payload)
		}
	}
	for _, f := range r.chart.Templates {
		if slices.Contains(strings.FieldsFunc(string(f.Data), func(c rune) bool { return strings.ContainsRune(" (){}|\n", c) }), "tpl") {
			t.Errorf("%s calls tpl", f.Name)
		}
	}
}

// A name that YAML would read as a number, a boolean or null stays a string.
func TestName(t *testing.T) {
	for _, name := range []string{"123", "1e3", "0x1f", "true", "on", "null"} {
		p := object(t, "{}")
		p.Name = name
		for _, o := range must.Value(newRenderer(t).Render(context.Background(), p))(t) {
			if o.GetLabels()[labelInstance] != name || o.GetName() != name+suffix {
				t.Errorf("%s %s: labels %v", o.GetKind(), o.GetName(), o.GetLabels())
			}
		}
	}
}

// All kinds in the templates are rendered with the values in everything, and are watched. Exceptions are the kinds of
// the DRA driver, and kinds that need values which are refused.
func TestKinds(t *testing.T) {
	r := newRenderer(t)
	templates := map[string]bool{}
	for _, f := range r.chart.Templates {
		if strings.HasPrefix(f.Name, "templates/tests/") || strings.HasPrefix(f.Name, "templates/dra/") {
			continue
		}
		for _, match := range regexp.MustCompile(`(?m)^kind: (\w+)$`).FindAllSubmatch(f.Data, -1) {
			templates[string(match[1])] = !strings.HasPrefix(string(match[1]), "ValidatingAdmissionPolicy")
		}
	}
	maps.DeleteFunc(templates, func(_ string, rendered bool) bool { return !rendered }) // the operator's chart has the policy
	for _, refused := range []string{"NodeFeatureRule", "SecurityContextConstraints"} {
		if _, ok := templates[refused]; !ok {
			t.Errorf("%s: found no template of it, want the exception removed", refused)
		}
		delete(templates, refused)
	}
	p := object(t, "mode: region")
	p.Spec.Values = &runtime.RawExtension{Raw: must.Value(yaml.YAMLToJSON([]byte(everything)))(t)}
	names, rendered, watched := map[string]bool{}, map[schema.GroupVersionKind]bool{}, map[schema.GroupVersionKind]bool{}
	for _, o := range must.Value(r.Render(context.Background(), p))(t) {
		names[o.GetKind()], rendered[o.GroupVersionKind()] = true, true
	}
	for _, kind := range kinds {
		watched[kind] = true
	}
	if diff := cmp.Diff(templates, names); diff != "" || len(names) < 8 {
		t.Errorf("kinds (-templates +rendered):\n%s", diff)
	}
	if diff := cmp.Diff(rendered, watched); diff != "" {
		t.Errorf("kinds (-rendered +watched):\n%s", diff)
	}
}

func TestDisjoint(t *testing.T) {
	if got := nodeSelector(object(t, "{nodeSelector: {a: u}, values: {nodeSelector: 7}}")); got["a"] != "u" {
		t.Errorf("node selector %v of a refused spec, want a: u", got)
	}
	for _, tc := range []struct {
		a, b string // specs
		want bool
	}{
		{"{}", "{}", false},
		{"{nodeSelector: {a: u}}", "{}", false},
		{"{nodeSelector: {a: u}}", "{nodeSelector: {a: u}}", false},
		{"{nodeSelector: {a: u}}", "{nodeSelector: {b: v}}", false},
		{"{nodeSelector: {a: u}}", "{nodeSelector: {a: v}}", true},
		{"{nodeSelector: {a: u, b: u}}", "{nodeSelector: {a: u, b: v}}", true},
		{"{nodeSelector: {a: u}}", "{values: {nodeSelector: {a: v}}}", true},
		{"{nodeSelector: {a: u}}", "{nodeSelector: {a: v}, values: {nodeSelector: {a: u}}}", false},
		{"{nodeSelector: {a: u}}", "{nodeSelector: {a: v}, values: {nodeSelector: null}}", false},
		{"{nodeSelector: {a: u}}", "{nodeSelector: {a: v}, values: {nodeSelector: {}}}", true},
	} {
		a, b := nodeSelector(object(t, tc.a)), nodeSelector(object(t, tc.b))
		if diff := cmp.Diff(podSpec(t, object(t, tc.b)).NodeSelector, b, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%s (-DaemonSet +got):\n%s", tc.b, diff)
		}
		if disjoint(a, b) != tc.want || disjoint(b, a) != tc.want {
			t.Errorf("%s and %s: disjoint %v, want %v", tc.a, tc.b, !tc.want, tc.want)
		}
	}
}

func TestOffers(t *testing.T) {
	all := []string{"fpga.intel.com/af-x", "fpga.intel.com/region-x", "fpga.example.com/af-x", "b-com.com/accelerator", "example.com/fpga", "cpu"}
	for _, tc := range []struct {
		spec string
		want []string
	}{
		{"{}", []string{"fpga.intel.com/af-x"}},
		{"mode: region", []string{"fpga.intel.com/region-x"}},
		{"mode: regiondevel", []string{"fpga.intel.com/region-x"}},
		{"values: {config: {resourceNamespace: fpga.example.com}}", []string{"fpga.example.com/af-x"}},
		{"values: {nodeAnnotation: true}", []string{"fpga.intel.com/af-x", "fpga.intel.com/region-x"}},
		{"values: {config: {mode: single}}", []string{"b-com.com/accelerator"}},
		{"values: {config: {mode: pool, resourceName: example.com/fpga}}", []string{"example.com/fpga"}},
		{"values: {config: {resources: [{name: example.com/fpga, match: {family: dfl}}]}}", []string{"fpga.intel.com/af-x", "example.com/fpga"}},
	} {
		r := newRenderer(t)
		values := must.Value(r.values(object(t, tc.spec)))(t)
		offers := must.Value(r.offers(values))(t)
		var got []string
		for _, resource := range all {
			if offers(resource) {
				got = append(got, resource)
			}
		}
		compare.Values(t, tc.spec, tc.want, got)
	}
}

func FuzzSplitImage(f *testing.F) {
	for _, s := range []string{"", "a", "a/b:c", "localhost:5000/a", "a@sha256:0", "a:b@c:d/e", "@", ":", "/"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, reference string) {
		repository, tag, digest := splitImage(reference)
		whole := repository
		for _, part := range []struct{ separator, text string }{{":", tag}, {"@", digest}} {
			if part.text != "" || strings.HasPrefix(reference[len(whole):], part.separator) {
				whole += part.separator + part.text
			}
		}
		if whole != reference {
			t.Errorf("%q: %q, %q, %q", reference, repository, tag, digest)
		}
		if isIntels(repository) && !strings.Contains(reference, intelName) {
			t.Errorf("%q is Intel's", reference)
		}
	})
}

// everything contains values with which the chart renders objects of all its kinds.
const everything = `
image: {repository: a, tag: b}
imagePullSecrets: [{name: a}]
config: {resourceNamespace: example.com, httpAddress: ":9480", recoveryHold: 10s, exclude: ["3b:00.0"]}
nodeAnnotation: true
events: true
nodeCondition: {enabled: true, type: accelerator.b-com.com/CardsHealthy}
kubelet: {rootDir: /a, devicePluginDir: /b}
stateDir: /c
simulatedNode: /a
programming: {enabled: true, hostDir: /a, store: /b, seLinuxType: spc_t}
serviceAccount: {annotations: {a: b}}
seLinuxType: spc_t
priorityClassName: a
tolerations: [{key: a, operator: Equal, value: b, effect: NoSchedule}]
nodeSelector: {a: b}
nodeFeatureDiscovery: {enabled: true, labels: [a]}
podLabels: {a: b}
podAnnotations: {a: b}
podMonitor: {enabled: true, labels: {a: b}, interval: 15s}
scrapers: [{ipBlock: {cidr: 10.0.0.0/8}}]
prometheusRule: {enabled: true, labels: {a: b}}
dashboard: {enabled: true, labels: {a: b}}
bitstreams: {references: [example.com/a:1], interval: 1h, pullSecret: a, proxy: "http://a:1", gc: {age: 24h, maxMiB: 1}, image: {repository: a, tag: b}}
`
