// Package api_test validates the CRDs of the API types, and objects against them, as the API server does.
package api_test

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
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apimachinery/pkg/runtime"
	yamlutil "k8s.io/apimachinery/pkg/util/yaml"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"sigs.k8s.io/yaml"

	"b-com.com/accelerator-device-plugin/test/compare"
)

const crds = "../../deploy/helm/accelerator-operator/files/crds"

// readAll returns the CRDs of a group by kind, as the API server has them after defaulting. The test
// fails if the API server would refuse one.
func readAll(t *testing.T, group, version string) map[string]*apiextensions.CustomResourceDefinition {
	t.Helper()
	scheme := runtime.NewScheme()
	install.Install(scheme)
	files, err := filepath.Glob(filepath.Join(crds, group+"_*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%s: found %v, error %v, want the CRDs of %s", crds, files, err, group)
	}
	all := map[string]*apiextensions.CustomResourceDefinition{}
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		var v1 apiextensionsv1.CustomResourceDefinition
		if err := yaml.UnmarshalStrict(raw, &v1); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		scheme.Default(&v1)
		var crd apiextensions.CustomResourceDefinition
		if err := scheme.Convert(&v1, &crd, nil); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		crd.Status.StoredVersions = []string{version}
		compare.Empty(t, file, crdvalidation.ValidateCustomResourceDefinition(context.Background(), &crd))
		all[crd.Spec.Names.Kind] = &crd
	}
	return all
}

// accepts validates an object as the API server does, and returns its error. The API
// server prunes unknown keys; here they are an error.
func accepts(t *testing.T, crd *apiextensions.CustomResourceDefinition, object map[string]any) error {
	t.Helper()
	schema := crd.Spec.Validation
	if schema == nil {
		schema = crd.Spec.Versions[0].Schema
	}
	structural, err := structuralschema.NewStructural(schema.OpenAPIV3Schema)
	if err != nil {
		t.Fatalf("%s: %v", crd.Name, err)
	}
	validator, _, err := validation.NewSchemaValidator(schema.OpenAPIV3Schema)
	if err != nil {
		t.Fatalf("%s: %v", crd.Name, err)
	}
	pruned := runtime.DeepCopyJSON(object)
	pruning.Prune(pruned, structural, true)
	if diff := cmp.Diff(object, pruned); diff != "" {
		return errors.New("unknown keys:\n" + diff)
	}
	errs := validation.ValidateCustomResource(nil, object, validator)
	rules, _ := cel.NewValidator(structural, true, celconfig.PerCallLimit).Validate(context.Background(), nil, structural, object, nil, celconfig.RuntimeCELCostBudget)
	return append(errs, rules...).ToAggregate()
}

// documents returns the objects of a YAML file.
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
			t.Fatalf("object %d: %v", len(all)+1, err)
		}
		all = append(all, object)
	}
}

// generated checks that the CRDs and the methods of the types in a directory are up to date. The Makefile sets
// CONTROLLER_GEN to the command.
func generated(t *testing.T, types string, kinds int) {
	t.Helper()
	generator := strings.Fields(os.Getenv("CONTROLLER_GEN"))
	if len(generator) == 0 {
		t.Skip("CONTROLLER_GEN is not set: make test-operator")
	}
	dir := t.TempDir()
	args := append(generator[1:], "object", "crd", "paths=./"+types, "output:crd:dir="+dir, "output:object:dir="+dir)
	if out, err := exec.Command(generator[0], args...).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	files, err := os.ReadDir(dir)
	if err != nil || len(files) != kinds+1 {
		t.Fatalf("generated files: found %v, error %v, want the CRDs of %d kinds and the methods", files, err, kinds)
	}
	for _, file := range files {
		committed := filepath.Join(crds, file.Name())
		if filepath.Ext(file.Name()) == ".go" {
			committed = filepath.Join(types, file.Name())
		}
		want, err := os.ReadFile(filepath.Join(dir, file.Name()))
		if err != nil {
			t.Fatalf("generated files: %v", err)
		}
		got, err := os.ReadFile(committed)
		if err != nil {
			t.Fatalf("generated files: %v", err)
		}
		compare.Values(t, committed+": output of `make generate-operator`", string(want), string(got))
	}
}
