package chart_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/apiserver/pkg/authentication/user"

	"b-com.com/accelerator-device-plugin/test/compare"
)

// A chart never grants the permission to patch the status of nodes without a policy that limits it.
func TestConditionHasPolicy(t *testing.T) {
	charts(t, func(t *testing.T, c chart) {
		c.sets(t, func(t *testing.T, _, manifests string) {
			all, policies := objects(t, manifests), 0
			for _, p := range every[*admissionregistrationv1.ValidatingAdmissionPolicy](all) {
				if slices.Contains(p.Spec.MatchConstraints.ResourceRules[0].Resources, "nodes/status") {
					policies++
				}
			}
			if right := slices.ContainsFunc(every[*rbacv1.ClusterRole](all), func(role *rbacv1.ClusterRole) bool {
				return slices.ContainsFunc(role.Rules, func(r rbacv1.PolicyRule) bool { return slices.Contains(r.Resources, "nodes/status") })
			}); right != (policies == 1) || policies > 1 {
				t.Errorf("right to patch the status of nodes: %t, with %d policies", right, policies)
			}
		})
	})
}

// Evaluated by the API server's package, both policies let a pod change only the condition of its own node.
func TestConditionPolicy(t *testing.T) {
	const kind = "accelerator.b-com.com/CardsHealthy"
	began := metav1.NewTime(time.Date(2026, 11, 20, 3, 12, 0, 0, time.UTC))
	condition := func(kind, status string) corev1.NodeCondition {
		return corev1.NodeCondition{Type: corev1.NodeConditionType(kind), Status: corev1.ConditionStatus(status), Reason: "R", Message: "m",
			LastHeartbeatTime: began, LastTransitionTime: began}
	}
	// A large node: 50 images is the limit of the kubelet.
	node := func(name string, change func(*corev1.Node)) *corev1.Node {
		n := &corev1.Node{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Node"},
			ObjectMeta: metav1.ObjectMeta{Name: name, UID: "u", ResourceVersion: "7", CreationTimestamp: began, Labels: map[string]string{"a": "b"},
				Annotations: map[string]string{"c": strings.Repeat("d", 10_000)}},
			Status: corev1.NodeStatus{Capacity: corev1.ResourceList{"cpu": resource.MustParse("8"), "memory": resource.MustParse("64Gi")},
				Conditions: []corev1.NodeCondition{condition("Ready", "True"), condition("DiskPressure", "False")},
				NodeInfo:   corev1.NodeSystemInfo{KernelVersion: "6.12"}},
		}
		for i := range 50 {
			image := corev1.ContainerImage{SizeBytes: int64(i)}
			for j := range 5 {
				image.Names = append(image.Names, fmt.Sprintf("registry.example.com/%0180d:%d", i, j))
			}
			n.Status.Images = append(n.Status.Images, image)
		}
		for i := range 20 {
			n.Status.Conditions = append(n.Status.Conditions, condition(fmt.Sprintf("example.com/Condition%d", i), "True"))
		}
		if change != nil {
			change(n)
		}
		return n
	}
	with := func(c corev1.NodeCondition) *corev1.Node {
		return node("here", func(n *corev1.Node) { n.Status.Conditions = append(n.Status.Conditions, c) })
	}
	changed := func(change func(*corev1.Node)) *corev1.Node {
		return node("here", func(n *corev1.Node) {
			n.Status.Conditions = append(n.Status.Conditions, condition(kind, "False"))
			change(n)
		})
	}
	message := func(size int) func(*corev1.Node) {
		return func(n *corev1.Node) {
			n.Status.Conditions[len(n.Status.Conditions)-1].Message = strings.Repeat("m", size)
		}
	}
	const key = "authentication.kubernetes.io/node-name"
	for name, c := range map[string]struct {
		chart
		values, policy, account string
	}{
		"plugin":                 {plugin, "nodeCondition: {enabled: true}", "accelerators-fpga-accelerator-device-plugin-condition", "system:serviceaccount:accelerators:fpga-accelerator-device-plugin"},
		"driver":                 {plugin, "api: dra\nnodeCondition: {enabled: true}", "accelerators-fpga-accelerator-device-plugin-condition", "system:serviceaccount:accelerators:fpga-accelerator-device-plugin"},
		"plugin of the operator": {operator, "devicePlugins: {enabled: true}", "accelerators-fpga-accelerator-operator-conditions", "system:serviceaccount:accelerators:fpga-accelerator-device-plugin"},
		"one with a long name":   {operator, "devicePlugins: {enabled: true}", "accelerators-fpga-accelerator-operator-conditions", "system:serviceaccount:accelerators:" + strings.Repeat("x", 53) + "-accelerat"},
		"operator":               {operator, "devicePlugins: {enabled: true}", "accelerators-fpga-accelerator-operator-conditions", "system:serviceaccount:accelerators:fpga-accelerator-operator"},
	} {
		t.Run(name, func(t *testing.T) {
			policy, binding := policyNamed(t, objects(t, c.rendered(t, c.values)), c.policy)
			// The plugins of the operator stay when it is uninstalled.
			var annotations map[string]string
			if c.dir == operator.dir {
				annotations = map[string]string{"helm.sh/resource-policy": "keep"}
			}
			compare.Values(t, "annotations", []map[string]string{annotations, annotations}, []map[string]string{policy.Annotations, binding.Annotations})
			rule := admissionregistrationv1.RuleWithOperations{
				Operations: []admissionregistrationv1.OperationType{"UPDATE"},
				Rule:       admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"nodes/status"}},
			}
			compare.Values(t, "rules", []admissionregistrationv1.NamedRuleWithOperations{{RuleWithOperations: rule}}, policy.Spec.MatchConstraints.ResourceRules)
			evaluator := validator(t, policy, version.MajorMinor(1, 30))
			token := func(nodes ...string) user.Info {
				return &user.DefaultInfo{Name: c.account, Extra: map[string][]string{key: nodes}}
			}
			was := with(condition(kind, "True"))
			const others, ownNode = "status.conditions: found a change of another condition, want only " + kind, "want the pod's own node"
			const own = "found " + kind + " twice or too long"
			const other, metadata = "status: found a change", "metadata: found a change"
			for _, tt := range []struct {
				name        string
				user        user.Info
				old, object runtime.Object
				want        string // in the message; "": admitted
			}{
				{"unchanged", token("here"), was, was, ""},
				{"first", token("here"), node("here", nil), was, ""},
				{"change", token("here"), was, with(condition(kind, "False")), ""},
				{"remove", token("here"), was, node("here", nil), ""},
				{"what the API server changes", token("here"), was, changed(func(n *corev1.Node) {
					n.ResourceVersion, n.Generation, n.ManagedFields = "8", 2, []metav1.ManagedFieldsEntry{{Manager: "x"}}
				}), ""},
				{"another node", token("there"), was, was, `found node "here" and the token of node "there", ` + ownNode},
				{"token without node", token(), was, was, `the token of node "", ` + ownNode},
				{"another condition", token("here"), was, changed(func(n *corev1.Node) { n.Status.Conditions[0].Status = "Unknown" }), others},
				{"its heartbeat", token("here"), was, changed(func(n *corev1.Node) { n.Status.Conditions[0].LastHeartbeatTime = metav1.NewTime(began.Add(time.Hour)) }), others},
				{"one more", token("here"), was, changed(func(n *corev1.Node) {
					n.Status.Conditions = append(n.Status.Conditions, condition("AcceleratedHardwareReady", "False"))
				}), others},
				{"one less", token("here"), was, changed(func(n *corev1.Node) { n.Status.Conditions = n.Status.Conditions[1:] }), others},
				{"all", token("here"), was, changed(func(n *corev1.Node) { n.Status.Conditions = nil }), others},
				{"one twice", token("here"), was, changed(func(n *corev1.Node) { n.Status.Conditions = append(n.Status.Conditions, n.Status.Conditions[0]) }), others},
				{"one for another", token("here"), was, changed(func(n *corev1.Node) { n.Status.Conditions[1] = n.Status.Conditions[0] }), others},
				{"its own twice", token("here"), was, changed(func(n *corev1.Node) { n.Status.Conditions = append(n.Status.Conditions, condition(kind, "True")) }), own},
				{"its status", token("here"), was, with(condition(kind, "true")), own},
				{"its longest message", token("here"), was, changed(message(1024)), ""},
				{"a longer message", token("here"), was, changed(message(1025)), own},
				{"an unchanged one", token("here"), changed(message(1025)), changed(message(1025)), ""},
				{"a longer reason", token("here"), was, changed(func(n *corev1.Node) {
					n.Status.Conditions[len(n.Status.Conditions)-1].Reason = strings.Repeat("R", 1025)
				}), own},
				{"capacity", token("here"), was, changed(func(n *corev1.Node) { n.Status.Capacity["cpu"] = resource.MustParse("9") }), other},
				{"new field", token("here"), was, changed(func(n *corev1.Node) { n.Status.Phase = "Running" }), other},
				{"field less", token("here"), was, changed(func(n *corev1.Node) { n.Status.Images = nil }), other},
				{"label", token("here"), was, changed(func(n *corev1.Node) { n.Labels["a"] = "c" }), metadata},
				{"annotations", token("here"), was, changed(func(n *corev1.Node) { n.Annotations = nil }), metadata},
				{"finalizer", token("here"), was, changed(func(n *corev1.Node) { n.Finalizers = []string{"a/b"} }), metadata},
				{"the kubelet", &user.DefaultInfo{Name: "system:node:here"}, was, changed(func(n *corev1.Node) { n.Status.Conditions = nil }), ""},
				{"account of another namespace", &user.DefaultInfo{Name: "system:serviceaccount:accelerators2:fpga-accelerator-device-plugin"}, was, node("here", func(n *corev1.Node) { n.Status.Conditions = nil }), ""},
				{"another account of the namespace", &user.DefaultInfo{Name: "system:serviceaccount:accelerators:node-controller"}, was, node("here", func(n *corev1.Node) { n.Status.Conditions = nil }), ""},
			} {
				t.Run(tt.name, func(t *testing.T) {
					refuses(t, evaluator, "status", tt.object, tt.old, tt.user, tt.want)
				})
			}
		})
	}
}
