package chart_test

import (
	"bufio"
	"errors"
	"io"
	"strings"
	"testing"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	apischema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"

	"b-com.com/accelerator-device-plugin/test/must"
)

// decoder decodes the kinds of objects in the charts. It is strict: an unknown or a duplicate
// field is an error.
var decoder = func() runtime.Decoder {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		appsv1.AddToScheme, batchv1.AddToScheme, corev1.AddToScheme, networkingv1.AddToScheme, policyv1.AddToScheme, rbacv1.AddToScheme,
		resourcev1.AddToScheme, admissionregistrationv1.AddToScheme, apiextensionsv1.AddToScheme, cmv1.AddToScheme, monitoringv1.AddToScheme,
	} {
		utilruntime.Must(add(scheme))
	}
	// The region of the operator's helm test has no type here. The e2e tests create it.
	scheme.AddKnownTypeWithName(apischema.GroupVersionKind{Group: "fpga.intel.com", Version: "v2", Kind: "FpgaRegion"}, &unstructured.Unstructured{})
	// The modules with these types cannot be had from the module proxy: TestNodeFeatureRule and TestSecurityContextConstraints check them.
	scheme.AddKnownTypeWithName(apischema.GroupVersionKind{Group: "nfd.k8s-sigs.io", Version: "v1alpha1", Kind: "NodeFeatureRule"}, &unstructured.Unstructured{})
	scheme.AddKnownTypeWithName(apischema.GroupVersionKind{Group: "security.openshift.io", Version: "v1", Kind: "SecurityContextConstraints"}, &unstructured.Unstructured{})
	return serializer.NewCodecFactory(scheme, serializer.EnableStrict).UniversalDeserializer()
}()

// objects decodes rendered manifests.
func objects(t *testing.T, manifests string) []runtime.Object {
	t.Helper()
	var all []runtime.Object
	for documents := utilyaml.NewYAMLReader(bufio.NewReader(strings.NewReader(manifests))); ; {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return all
		}
		must.Succeed(t, err)
		if text := strings.TrimSpace(string(document)); text == "" || text == "---" {
			continue
		}
		object, _, err := decoder.Decode(document, nil, nil)
		if err != nil {
			t.Fatalf("the API server would refuse the object: %v\n%s", err, document)
		}
		all = append(all, object)
	}
}

// every returns the objects of type T.
func every[T runtime.Object](all []runtime.Object) (found []T) {
	for _, o := range all {
		if o, ok := o.(T); ok {
			found = append(found, o)
		}
	}
	return found
}

// only returns the object of type T. There must be exactly one.
func only[T runtime.Object](t *testing.T, all []runtime.Object) T {
	t.Helper()
	found := every[T](all)
	if len(found) != 1 {
		t.Fatalf("%d objects of type %T, want 1", len(found), *new(T))
	}
	return found[0]
}
