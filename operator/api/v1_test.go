package api_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"

	"b-com.com/accelerator-device-plugin/operator/api/v1"
	"b-com.com/accelerator-device-plugin/test/compare"
	"b-com.com/accelerator-device-plugin/test/must"
)

func readV1(t *testing.T) *apiextensions.CustomResourceDefinition {
	t.Helper()
	crd := readAll(t, v1.GroupVersion.Group, v1.GroupVersion.Version)[v1.KindFpgaDevicePlugin]
	if crd == nil || crd.Spec.Scope != apiextensions.ClusterScoped {
		t.Fatalf("%+v, want a cluster-scoped %s", crd, v1.KindFpgaDevicePlugin)
	}
	return crd
}

func TestV1Samples(t *testing.T) {
	crd := readV1(t)
	raw := must.Value(os.ReadFile("v1/testdata/samples.yaml"))(t)
	for _, object := range documents(t, raw) {
		compare.NoError(t, fmt.Sprintf("%v", object["metadata"]), accepts(t, crd, object))
	}
}

func TestV1Schema(t *testing.T) {
	crd := readV1(t)
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
			compare.Equal(t, "accepted", tc.ok, accepts(t, crd, object) == nil)
		})
	}
}

func TestV1Generated(t *testing.T) { generated(t, "v1", 1) }
