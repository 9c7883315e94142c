package v2_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/install"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	crdvalidation "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apimachinery/pkg/runtime"
	yamlutil "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"
)

const crds = "../../../deploy/helm/accelerator-operator/files/crds"

// readCRDs returns the CRDs by kind, as the API server has them after defaulting.
func readCRDs(t *testing.T) map[string]*apiextensions.CustomResourceDefinition {
	t.Helper()
	scheme := runtime.NewScheme()
	install.Install(scheme)
	files, err := filepath.Glob(crds + "/*.yaml")
	if err != nil || len(files) != 2 {
		t.Fatalf("%v, %v, want the CRDs of two kinds", files, err)
	}
	all := map[string]*apiextensions.CustomResourceDefinition{}
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var v1 apiextensionsv1.CustomResourceDefinition
		if err := yaml.UnmarshalStrict(raw, &v1); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		scheme.Default(&v1)
		var crd apiextensions.CustomResourceDefinition
		if err := scheme.Convert(&v1, &crd, nil); err != nil {
			t.Fatal(err)
		}
		all[crd.Spec.Names.Kind] = &crd
	}
	return all
}

// The API server accepts the CRDs.
func TestCRDs(t *testing.T) {
	for kind, crd := range readCRDs(t) {
		crd.Status.StoredVersions = []string{"v2"}
		if errs := crdvalidation.ValidateCustomResourceDefinition(context.Background(), crd); len(errs) > 0 {
			t.Errorf("%s: %v", kind, errs)
		}
		if crd.Spec.Scope != apiextensions.NamespaceScoped || len(crd.Spec.Names.ShortNames) != 1 {
			t.Errorf("%s: scope %s, short names %v", kind, crd.Spec.Scope, crd.Spec.Names.ShortNames)
		}
	}
}

// accepts validates an object as the API server does, and returns its error. Unknown keys
// are pruned there; here they are an error.
func accepts(t *testing.T, crd *apiextensions.CustomResourceDefinition, object map[string]any) error {
	t.Helper()
	schema := crd.Spec.Validation
	if schema == nil {
		schema = crd.Spec.Versions[0].Schema
	}
	structural, err := structuralschema.NewStructural(schema.OpenAPIV3Schema)
	if err != nil {
		t.Fatal(err)
	}
	validator, _, err := validation.NewSchemaValidator(schema.OpenAPIV3Schema)
	if err != nil {
		t.Fatal(err)
	}
	pruned := runtime.DeepCopyJSON(object)
	pruning.Prune(pruned, structural, true)
	if diff := cmp.Diff(object, pruned); diff != "" {
		return errors.New("unknown keys:\n" + diff)
	}
	return validation.ValidateCustomResource(nil, object, validator).ToAggregate()
}

func documents(t *testing.T, raw []byte) (all []map[string]any) {
	t.Helper()
	decoder := yamlutil.NewYAMLOrJSONDecoder(bytes.NewReader(raw), 4096)
	for {
		var object map[string]any
		err := decoder.Decode(&object)
		if err == io.EOF {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, object)
	}
}

// MAPPINGS=FILE adds a file of one's own, such as Intel's collection of mappings.
func TestSamples(t *testing.T) {
	all := readCRDs(t)
	for _, file := range []string{"testdata/samples.yaml", os.Getenv("MAPPINGS")} {
		if file == "" {
			continue
		}
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		objects := documents(t, raw)
		for _, object := range objects {
			if err := accepts(t, all[object["kind"].(string)], object); err != nil {
				t.Errorf("%s: %v: %v", file, object["metadata"], err)
			}
		}
		t.Logf("%s: %d objects", file, len(objects))
	}
}

func TestSchema(t *testing.T) {
	all := readCRDs(t)
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
			if err := accepts(t, all[tc.kind], object); (err == nil) != tc.ok {
				t.Errorf("error %v, want accepted: %v", err, tc.ok)
			}
		})
	}
}

// The generated files are up to date. CONTROLLER_GEN, set by the Makefile, is the command.
func TestGenerated(t *testing.T) {
	generator := strings.Fields(os.Getenv("CONTROLLER_GEN"))
	if len(generator) == 0 {
		t.Skip("CONTROLLER_GEN is not set: make test-operator")
	}
	dir := t.TempDir()
	args := append(generator[1:], "object", "crd", "paths=.", "output:crd:dir="+dir, "output:object:dir="+dir)
	if out, err := exec.Command(generator[0], args...).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	files, err := os.ReadDir(dir)
	if err != nil || len(files) != 3 {
		t.Fatalf("%v, %v, want the CRDs of two kinds and the methods", files, err)
	}
	for _, file := range files {
		committed := filepath.Join(crds, file.Name())
		if filepath.Ext(file.Name()) == ".go" {
			committed = file.Name()
		}
		want, err := os.ReadFile(filepath.Join(dir, file.Name()))
		if err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(committed)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), string(got)); diff != "" {
			t.Errorf("%s: want the output of `make generate-operator` (-want +got):\n%s", committed, diff)
		}
	}
}
