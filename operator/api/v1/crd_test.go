package v1_test

import (
	"os"
	"strings"
	"testing"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"

	"b-com.com/accelerator-device-plugin/operator/api/crdtest"
	"b-com.com/accelerator-device-plugin/operator/api/v1"
)

func readCRD(t *testing.T) *apiextensions.CustomResourceDefinition {
	t.Helper()
	crd := crdtest.Read(t, v1.GroupVersion.Group, v1.GroupVersion.Version)[v1.KindFpgaDevicePlugin]
	if crd == nil || crd.Spec.Scope != apiextensions.ClusterScoped {
		t.Fatalf("%+v, want a cluster-scoped %s", crd, v1.KindFpgaDevicePlugin)
	}
	return crd
}

func TestSamples(t *testing.T) {
	crd := readCRD(t)
	raw, err := os.ReadFile("testdata/samples.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, object := range crdtest.Documents(t, raw) {
		if err := crdtest.Accepts(t, crd, object); err != nil {
			t.Errorf("%v: %v", object["metadata"], err)
		}
	}
}

func TestSchema(t *testing.T) {
	crd := readCRD(t)
	for _, tc := range []struct {
		name, object string
		spec         map[string]any
		ok           bool
	}{
		{"empty spec", "a", map[string]any{}, true},
		{"longest name", strings.Repeat("a", 53), map[string]any{}, true},
		{"name too long", strings.Repeat("a", 54), map[string]any{}, false},
		{"name with a dot", "a.b", map[string]any{}, false},
		{"name that ends with a dash", "a-", map[string]any{}, false},
		{"mode that is not Intel's", "a", map[string]any{"mode": "single"}, false},
		{"negative level", "a", map[string]any{"logLevel": int64(-1)}, false},
		{"any key of values", "a", map[string]any{"values": map[string]any{"x": map[string]any{"y": []any{"z"}}}}, true},
		{"values that are a list", "a", map[string]any{"values": []any{}}, false},
		{"unknown key", "a", map[string]any{"images": "x"}, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			object := map[string]any{"apiVersion": v1.GroupVersion.String(), "kind": v1.KindFpgaDevicePlugin,
				"metadata": map[string]any{"name": tc.object}, "spec": tc.spec}
			if err := crdtest.Accepts(t, crd, object); (err == nil) != tc.ok {
				t.Errorf("error %v, want accepted: %v", err, tc.ok)
			}
		})
	}
}

func TestGenerated(t *testing.T) { crdtest.Generated(t, 1) }
