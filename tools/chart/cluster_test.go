package chart_test

import (
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp/cmpopts"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/yaml"

	"b-com.com/accelerator-device-plugin/test/compare"
	"b-com.com/accelerator-device-plugin/test/must"
)

// strict decodes the object of a kind into to. Unknown keys are errors.
func strict(t *testing.T, manifests, kind string, to any) {
	t.Helper()
	for _, o := range objects(t, manifests) {
		if u, ok := o.(*unstructured.Unstructured); ok && u.GetKind() == kind {
			text := must.Value(yaml.Marshal(u.Object))(t)
			must.Succeed(t, yaml.UnmarshalStrict(text, to))
			return
		}
	}
	t.Fatalf("found no %s", kind)
}

// The keys, operators and required fields come from the CRD of Node Feature Discovery (nfd-api-crds.yaml, v1alpha1),
// and the attributes of pci.device from its documentation of rules.
func TestNodeFeatureRule(t *testing.T) {
	type matchFeature struct {
		Feature          string
		MatchExpressions map[string]struct {
			Op    string
			Value []string
		}
	}
	var object struct {
		metav1.TypeMeta
		metav1.ObjectMeta `json:"metadata"`
		Spec              struct {
			Rules []struct {
				Name          string
				Labels        map[string]string
				MatchFeatures []matchFeature
				MatchAny      []struct{ MatchFeatures []matchFeature }
			}
		}
	}
	strict(t, plugin.rendered(t, "nodeFeatureDiscovery: {rule: true}"), "NodeFeatureRule", &object)
	compare.Equal(t, "apiVersion", "nfd.k8s-sigs.io/v1alpha1", object.APIVersion)
	compare.Equal(t, "namespace", "", object.Namespace)
	id := regexp.MustCompile(`^[0-9a-f]{4}$`)
	page := read(t, plugin.docs)
	names := map[string]bool{}
	for _, rule := range object.Spec.Rules {
		if names[rule.Name] || rule.Name == "" {
			t.Errorf("rule %q: found twice, or no name", rule.Name)
		}
		names[rule.Name] = true
		if len(rule.Labels) != 2 || rule.Labels["accelerator.b-com.com/card"] != "true" {
			t.Errorf("%s: labels %v", rule.Name, rule.Labels)
		}
		for label := range rule.Labels {
			if errs := validation.IsQualifiedName(label); errs != nil || !strings.Contains(page, "`"+strings.TrimPrefix(label, "accelerator.b-com.com/")+"`") {
				t.Errorf("%s: label %s: %v, or found it not in chart.md", rule.Name, label, errs)
			}
		}
		terms := rule.MatchFeatures
		for _, any := range rule.MatchAny {
			terms = append(terms, any.MatchFeatures...)
		}
		if len(terms) == 0 {
			t.Errorf("%s: matches every node", rule.Name)
		}
		for _, term := range terms {
			if term.Feature != "pci.device" || term.MatchExpressions["vendor"].Op == "" || term.MatchExpressions["device"].Op == "" {
				t.Errorf("%s: %+v, want pci.device with vendor and device", rule.Name, term)
			}
			for attribute, e := range term.MatchExpressions {
				if !slices.Contains([]string{"vendor", "device", "subsystem_vendor", "subsystem_device"}, attribute) || e.Op != "In" || len(e.Value) == 0 || !id.MatchString(e.Value[0]) {
					t.Errorf("%s: %s: %+v", rule.Name, attribute, e)
				}
			}
		}
	}
	if len(names) < 9 {
		t.Errorf("%d rules, want 9", len(names))
	}
}

// The keys come from SecurityContextConstraints in security/v1/types.go of openshift/api. With all sets of values, it
// allows what the pods use, and nothing else that matters.
func TestSecurityContextConstraints(t *testing.T) {
	type strategy struct{ Type string }
	type constraints struct {
		metav1.TypeMeta
		metav1.ObjectMeta                                                                                                                        `json:"metadata"`
		Priority                                                                                                                                 *int32
		AllowPrivilegedContainer, AllowHostDirVolumePlugin, AllowHostNetwork, AllowHostPorts, AllowHostPID, AllowHostIPC, ReadOnlyRootFilesystem bool
		AllowPrivilegeEscalation                                                                                                                 *bool
		DefaultAddCapabilities, RequiredDropCapabilities, AllowedCapabilities                                                                    []corev1.Capability
		Volumes, SeccompProfiles, Users, Groups                                                                                                  []string
		SELinuxContext, RunAsUser, SupplementalGroups, FSGroup                                                                                   strategy
	}
	plugin.sets(t, func(t *testing.T, values, _ string) {
		if !strings.Contains(values, "securityContextConstraints") {
			values += "\nsecurityContextConstraints: true\n"
		}
		rendered := plugin.rendered(t, values)
		var got constraints
		strict(t, rendered, "SecurityContextConstraints", &got)
		pod := only[*appsv1.DaemonSet](t, objects(t, rendered)).Spec.Template.Spec
		for _, v := range pod.Volumes {
			kind := map[bool]string{v.HostPath != nil: "hostPath", v.ConfigMap != nil: "configMap", v.EmptyDir != nil: "emptyDir", v.Projected != nil: "projected"}[true]
			if !slices.Contains(got.Volumes, kind) {
				t.Errorf("volume %s: found kind %q, want one of %q", v.Name, kind, got.Volumes)
			}
		}
		// TestLeastPrivilege checks that the pod has the only allowed seccomp profile.
		want := constraints{
			TypeMeta: got.TypeMeta, ObjectMeta: got.ObjectMeta, AllowHostDirVolumePlugin: true, ReadOnlyRootFilesystem: true, AllowPrivilegeEscalation: new(false),
			RequiredDropCapabilities: []corev1.Capability{"ALL"}, Volumes: got.Volumes, SeccompProfiles: []string{"runtime/default"}, Groups: []string{},
			Users:          []string{"system:serviceaccount:" + space + ":" + pod.ServiceAccountName},
			SELinuxContext: strategy{"RunAsAny"}, RunAsUser: strategy{"RunAsAny"}, SupplementalGroups: strategy{"RunAsAny"}, FSGroup: strategy{"RunAsAny"},
		}
		compare.Values(t, "constraints", want, got)
	})
}

// The annotations for Artifact Hub describe the CRDs of the chart, and the icon and the maintainers are there. Whoever
// publishes the charts adds addresses.
func TestChartMetadata(t *testing.T) {
	charts(t, func(t *testing.T, c chart) {
		var meta struct {
			Icon        string
			Maintainers []struct{ Name string }
			Annotations map[string]string
		}
		must.Succeed(t, yaml.Unmarshal([]byte(read(t, c.dir+"/Chart.yaml")), &meta))
		if !strings.HasPrefix(meta.Icon, "data:image/svg+xml;base64,") || len(meta.Maintainers) == 0 {
			t.Errorf("found %+v, want an icon and maintainers", meta)
		}
		for key, text := range meta.Annotations {
			compare.Contains(t, "annotation", "artifacthub.io/", key)
			compare.NoError(t, key, yaml.Unmarshal([]byte(text), new(any)))
		}
		type crd struct{ Kind, Version, Name string }
		var annotated []struct {
			crd                      `json:",inline"`
			DisplayName, Description string
		}
		must.Succeed(t, yaml.UnmarshalStrict([]byte(meta.Annotations["artifacthub.io/crds"]), &annotated))
		var got, want []crd
		for _, a := range annotated {
			got = append(got, a.crd)
		}
		for _, file := range must.Value(filepath.Glob(c.dir + "/files/crds/*.yaml"))(t) {
			d := only[*apiextensionsv1.CustomResourceDefinition](t, objects(t, read(t, file)))
			want = append(want, crd{d.Spec.Names.Kind, d.Spec.Versions[0].Name, d.Name})
		}
		compare.Values(t, "CRDs", want, got, cmpopts.SortSlices(func(a, b crd) bool { return a.Name < b.Name }))
	})
}
