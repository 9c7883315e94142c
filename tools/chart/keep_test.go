package chart_test

import (
	"maps"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	k8slabels "k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"

	"b-com.com/accelerator-device-plugin/test/compare"
	"b-com.com/accelerator-device-plugin/test/golden"
	"b-com.com/accelerator-device-plugin/test/must"
)

const kept = "bitstreams: {references: [registry.example.com/fpga/nlb:1.0]}\n"

// everythingKept has all values of bitstreams, and those that add something to their DaemonSet.
const everythingKept = `
bitstreams:
  references: [registry.example.com/fpga/nlb:1.0, registry.example.com:5000/fpga/vadd]
  interval: 1h
  pullSecret: bitstreams
  ca: |
    -----BEGIN CERTIFICATE-----
    bm90IGEgY2VydGlmaWNhdGU=
    -----END CERTIFICATE-----
  keys: |
    -----BEGIN PUBLIC KEY-----
    bm90IGEga2V5
    -----END PUBLIC KEY-----
  proxy: http://proxy.example.com:3128
  noProxy: .example.com
  plainHTTP: true
  gc: {age: 168h, maxMiB: 10000}
  image: {repository: registry.example.com/accelerator-fpga-registry, tag: v9}
events: true
simulatedNode: /var/lib/simulated
programming: {store: /srv/fpga, seLinuxType: spc_t}
podMonitor: {enabled: true, interval: 15s}
nodeSelector: {a: b}
podLabels: {team: fpga}
podAnnotations: {example.com/note: a note}
imagePullSecrets: [{name: registry}]
`

func TestKeepGolden(t *testing.T) {
	of := func(values string) string {
		return without(t, plugin.rendered(t, values, "--show-only", "templates/bitstreams.yaml"))
	}
	golden.Compare(t, plugin.data+"/keep.golden", of(kept))
	golden.Compare(t, plugin.data+"/keep-everything.golden.diff", difference(of(kept), of(everythingKept)))
}

// keeper returns the objects of the bitstreams.
func keeper(t *testing.T, values string, args ...string) []runtime.Object {
	t.Helper()
	return objects(t, plugin.rendered(t, values, append(args, "--show-only", "templates/bitstreams.yaml")...))
}

// Without a list, there are no objects. With a list, the objects of the daemon stay as they are, for both APIs, so that
// the daemon is not replaced.
func TestKeepApart(t *testing.T) {
	for _, values := range []string{"", "api: dra\n", "podMonitor: {enabled: true}\nevents: true\n"} {
		with := plugin.rendered(t, values+kept, "--skip-tests")
		own := plugin.rendered(t, values+kept, "--show-only", "templates/bitstreams.yaml")
		without := plugin.rendered(t, values, "--skip-tests")
		of := func(manifests string) map[string]bool {
			all := map[string]bool{}
			for document := range strings.SplitSeq("---\n"+manifests, "---\n") {
				all[strings.TrimSpace(document)] = true
			}
			return all
		}
		want := of(without)
		maps.Copy(want, of(own))
		compare.Values(t, values+": objects with bitstreams", want, of(with))
	}
}

// A change of the list, or of the other files in its ConfigMap, changes only the ConfigMap: no pod is replaced.
func TestKeepListReplacesNoPod(t *testing.T) {
	before := only[*appsv1.DaemonSet](t, keeper(t, kept))
	after := only[*appsv1.DaemonSet](t, keeper(t, strings.ReplaceAll(kept, "]", ", registry.example.com/fpga/vadd:2]")))
	compare.Values(t, "DaemonSet", before, after)
	list := only[*corev1.ConfigMap](t, keeper(t, everythingKept)).Data["references.txt"]
	compare.Equal(t, "list", "registry.example.com/fpga/nlb:1.0\nregistry.example.com:5000/fpga/vadd\n", list)
}

// The pod can write only to the store. It has no privileges, no capabilities and no host network, and it has a token
// only if it writes Events.
func TestKeepLeastPrivilege(t *testing.T) {
	for values, token := range map[string]bool{kept: false, everythingKept: true} {
		all := keeper(t, values)
		pod := only[*appsv1.DaemonSet](t, all).Spec.Template.Spec
		root := int64(0)
		if len(pod.InitContainers) != 0 || len(pod.Containers) != 1 || pod.HostNetwork || pod.HostPID || pod.HostIPC || *pod.AutomountServiceAccountToken != token {
			t.Errorf("found %d init containers, %d containers, hostNetwork %v, hostPID %v, hostIPC %v, token %v, want one container and token %v",
				len(pod.InitContainers), len(pod.Containers), pod.HostNetwork, pod.HostPID, pod.HostIPC, *pod.AutomountServiceAccountToken, token)
		}
		want := &corev1.PodSecurityContext{RunAsUser: &root, RunAsGroup: &root, SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}}
		compare.Values(t, "security context of the pod", want, pod.SecurityContext)
		c := pod.Containers[0]
		unprivileged(t, c)
		var writable []string
		for _, m := range c.VolumeMounts {
			if !m.ReadOnly {
				writable = append(writable, m.Name)
			}
		}
		compare.Values(t, "writable mounts", []string{"store"}, writable)
		if !token {
			continue
		}
		rules := only[*rbacv1.ClusterRole](t, all).Rules
		compare.Values(t, "rules", []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"events"}, Verbs: []string{"create", "patch"}}}, rules)
	}
}

// The policies and selectors of the daemon do not select the pods for the bitstreams, and vice versa.
func TestKeepSelectors(t *testing.T) {
	for _, api := range []string{"api: devicePlugin\n", "api: dra\n"} {
		own := map[string]k8slabels.Selector{}
		labels := map[string]k8slabels.Set{}
		for _, o := range objects(t, plugin.rendered(t, api+kept, "--skip-tests")) {
			switch o := o.(type) {
			case *appsv1.DaemonSet:
				s := must.Value(metav1.LabelSelectorAsSelector(o.Spec.Selector))(t)
				own["DaemonSet "+o.Name], labels[o.Name] = s, o.Spec.Template.Labels
			case *networkingv1.NetworkPolicy:
				s := must.Value(metav1.LabelSelectorAsSelector(&o.Spec.PodSelector))(t)
				own["NetworkPolicy "+o.Name] = s
			}
		}
		if len(own) != 4 || len(labels) != 2 {
			t.Fatalf("found %v, want two DaemonSets and two policies", own)
		}
		for object, selector := range own {
			for name, set := range labels {
				same := strings.HasSuffix(object, "-bitstreams") == strings.HasSuffix(name, "-bitstreams")
				if selector.Matches(set) != same {
					t.Errorf("%s: selects the pods of %s: %v, want %v", object, name, !same, same)
				}
			}
		}
	}
}

// The image has the name that `make image` gives it. Its first binary is the one that the DaemonSet starts.
func TestKeepImage(t *testing.T) {
	c := only[*appsv1.DaemonSet](t, keeper(t, kept)).Spec.Template.Spec.Containers[0]
	name, _, _ := strings.Cut(c.Image, ":")
	compare.Contains(t, "Makefile", "$(call IMAGE,"+name+")", read(t, "../../Makefile"))
	if c.Command[0] != "/usr/bin/"+name || c.Command[1] != "keep" || c.ImagePullPolicy != corev1.PullNever {
		t.Errorf("found command %q and pull policy %s, want /usr/bin/%s keep, and Never without a registry", c.Command, c.ImagePullPolicy, name)
	}
}
