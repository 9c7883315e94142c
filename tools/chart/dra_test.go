package chart_test

import (
	"context"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/common/util"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/engine"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	k8slabels "k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/apiserver/pkg/admission"
	admissioncel "k8s.io/apiserver/pkg/admission/plugin/cel"
	"k8s.io/apiserver/pkg/admission/plugin/policy/validating"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/matchconditions"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/cel/environment"
	dracel "k8s.io/dynamic-resource-allocation/cel"
	"sigs.k8s.io/yaml"

	"b-com.com/accelerator-device-plugin/test/compare"
	"b-com.com/accelerator-device-plugin/test/must"
)

// driver is the name of the driver in package offer/draname, which is in another module.
const driver = "accelerator.b-com.com"

// isDRA reports whether a set of values installs the driver.
func isDRA(values string) bool { return strings.HasPrefix(values, "api: dra\n") }

// oldest is the oldest version of Kubernetes for the driver.
var oldest = version.MajorMinor(1, 34)

// The notes mention the taints only for versions of Kubernetes in which they are off by default.
func TestNotesOfDRA(t *testing.T) {
	c := must.Value(loader.LoadDir(plugin.dir))(t)
	for kubernetes, off := range map[string]bool{"v1.34.0": true, "v1.35.9": true, "v1.36.0": false, "v1.36.2-gke.1": false, "v1.37.1": false} {
		kubeVersion := must.Value(common.ParseKubeVersion(kubernetes))(t)
		options := common.ReleaseOptions{Name: release, Namespace: space, Revision: 1, IsInstall: true}
		values := must.Value(util.ToRenderValues(c, map[string]any{"api": "dra"}, options, &common.Capabilities{KubeVersion: *kubeVersion}))(t)
		files := must.Value(engine.Engine{}.RenderWithContext(context.Background(), c, values))(t)
		notes := files["accelerator-device-plugin/templates/NOTES.txt"]
		if strings.Contains(notes, "device taints are off by default") != off || !strings.Contains(notes, "kubectl get resourceslices") {
			t.Errorf("%s: want taints off: %t; notes:\n%s", kubernetes, off, notes)
		}
	}
}

// The notes show how to find the pods that keep dra.finishClaims necessary.
func TestNotesOfFinishClaims(t *testing.T) {
	for _, set := range []string{"dra.finishClaims=true", "dra.finishClaims=false"} {
		out := must.Value(helm("install", release, plugin.dir, "--namespace", space, "--set", set, "--dry-run=client"))(t)
		compare.Equal(t, set+": notes with the command for claims", set == "dra.finishClaims=true", strings.Contains(out, "kubectl get resourceclaims"))
	}
}

// With the longest directory of the kubelet that is accepted, the path of the driver's socket has 107 characters, the
// most that the kernel accepts. The helper of Kubernetes builds the path with the pod's uid.
func TestLongestPath(t *testing.T) {
	pod := only[*appsv1.DaemonSet](t, objects(t, plugin.rendered(t, "api: dra\nkubelet: {rootDir: /"+strings.Repeat("a", 30)+"}"))).Spec.Template.Spec
	i := slices.IndexFunc(pod.Volumes, func(v corev1.Volume) bool { return v.Name == "plugin" })
	socket := pod.Volumes[i].HostPath.Path + "/dra-01234567-89ab-cdef-0123-456789abcdef.sock"
	compare.Equal(t, "characters in "+socket, 107, len(socket))
}

// With finishClaims, the chart contains the same objects of the device plugin as without it, except for the
// NetworkPolicy. In addition, it contains the DaemonSet of the driver, its permissions and its classes. Neither DaemonSet selects
// the pods of the other one.
func TestFinishClaims(t *testing.T) {
	for _, values := range []string{"{}", "{config: {mode: region}, programming: {enabled: true}, podMonitor: {enabled: true}}"} {
		of := func(more string) map[string]runtime.Object {
			all := map[string]runtime.Object{}
			for _, o := range objects(t, plugin.rendered(t, values, "--skip-tests", "--set", more)) {
				object := must.Value(meta.Accessor(o))(t)
				all[fmt.Sprintf("%T %s", o, object.GetName())] = o
			}
			return all
		}
		got, want, dra := of("dra.finishClaims=true"), of("api=devicePlugin"), of("api=dra")
		const daemonSet = "*v1.DaemonSet fpga-accelerator-device-plugin"
		const policy = "*v1.NetworkPolicy fpga-accelerator-device-plugin"
		selector := &got[policy].(*networkingv1.NetworkPolicy).Spec.PodSelector
		for _, labels := range []map[string]string{
			got[daemonSet].(*appsv1.DaemonSet).Spec.Template.Labels, dra[daemonSet+"-dra"].(*appsv1.DaemonSet).Spec.Template.Labels,
		} {
			s, err := metav1.LabelSelectorAsSelector(selector)
			if err != nil || !s.Matches(k8slabels.Set(labels)) {
				t.Errorf("NetworkPolicy: selects %v, error %v; want pods with %v, too", selector, err, labels)
			}
		}
		want[policy].(*networkingv1.NetworkPolicy).Spec.PodSelector = *selector
		want[policy].(*networkingv1.NetworkPolicy).Spec.PolicyTypes = []networkingv1.PolicyType{networkingv1.PolicyTypeIngress}
		for name, o := range dra {
			if strings.HasSuffix(name, "-config") { // for new claims, which the driver refuses
				continue
			}
			switch o := o.(type) {
			case *appsv1.DaemonSet:
				pod := &o.Spec.Template.Spec
				c := &pod.Containers[0]
				for i := range c.Env {
					if c.Env[i].Name == "ACCELERATOR_STATE_DIR" {
						c.Env[i].Value = ""
					}
				}
				at := slices.IndexFunc(c.Env, func(e corev1.EnvVar) bool { return e.Name == "ACCELERATOR_POD_UID" })
				c.Env = slices.Insert(c.Env, at, corev1.EnvVar{Name: "ACCELERATOR_FINISH_CLAIMS", Value: "true"})
				c.VolumeMounts = slices.DeleteFunc(c.VolumeMounts, func(m corev1.VolumeMount) bool { return m.Name == "state" })
				pod.Volumes = slices.DeleteFunc(pod.Volumes, func(v corev1.Volume) bool { return v.Name == "state" })
				want[name] = o
			case *rbacv1.ClusterRole, *rbacv1.ClusterRoleBinding, *admissionregistrationv1.ValidatingAdmissionPolicy, *admissionregistrationv1.ValidatingAdmissionPolicyBinding, *resourcev1.DeviceClass:
				want[name] = o
			}
		}
		compare.Values(t, values+": objects", want, got)
		for name, other := range map[string]string{daemonSet: daemonSet + "-dra", daemonSet + "-dra": daemonSet} {
			s, err := metav1.LabelSelectorAsSelector(got[name].(*appsv1.DaemonSet).Spec.Selector)
			if err != nil || s.Matches(k8slabels.Set(got[other].(*appsv1.DaemonSet).Spec.Template.Labels)) {
				t.Errorf("%s: error %v, selects the pods of %s", name, err, other)
			}
		}
	}
	if plugin.rendered(t, "api: dra") != plugin.rendered(t, "{api: dra, dra: {finishClaims: true}}") {
		t.Error("finishClaims has an effect with api: dra, want none")
	}
}

// claimed checks that the container of a pod claims one device of the class with the template.
func claimed(t *testing.T, template *resourcev1.ResourceClaimTemplate, pod corev1.PodSpec, class string) {
	t.Helper()
	requests := template.Spec.Spec.Devices.Requests
	if len(requests) != 1 || requests[0].Exactly == nil || requests[0].Exactly.DeviceClassName != class {
		t.Errorf("requests %+v, want one of the class %s", requests, class)
	}
	if len(pod.ResourceClaims) != 1 || *pod.ResourceClaims[0].ResourceClaimTemplateName != template.Name {
		t.Fatalf("claims of the pod: %+v, want one of the template %s", pod.ResourceClaims, template.Name)
	}
	compare.Values(t, "claims of the container", []corev1.ResourceClaim{{Name: pod.ResourceClaims[0].Name}}, pod.Containers[0].Resources.Claims)
}

// The pod of helm test claims a device, and fails unless it gets its variable.
func TestHelmTestOfDRA(t *testing.T) {
	all := objects(t, plugin.rendered(t, "api: dra\nconfig: {mode: af}\ntest: {deviceClass: nlb.example.com}"))
	template, job := only[*resourcev1.ResourceClaimTemplate](t, all), only[*batchv1.Job](t, all)
	pod := job.Spec.Template.Spec
	claimed(t, template, pod, "nlb.example.com")
	c := pod.Containers[0]
	if !slices.Equal(c.Command, []string{"/usr/bin/accelerator-device-plugin", "granted"}) || len(c.Args) != 0 || c.Image != "accelerator-dra-driver:devel" || len(c.Resources.Limits) != 0 {
		t.Errorf("the pod runs %q %q of %s, with limits %v", c.Command, c.Args, c.Image, c.Resources.Limits)
	}
	const weight = "helm.sh/hook-weight"
	if template.Annotations["helm.sh/hook"] != "test" || template.Annotations[weight] != "-1" || job.Annotations[weight] != "" || *job.Spec.ActiveDeadlineSeconds != 50 {
		t.Errorf("annotations of the template %v, of the job %v, deadline %d s", template.Annotations, job.Annotations, *job.Spec.ActiveDeadlineSeconds)
	}
}

// selected reports whether a CEL expression selects a device, as the scheduler's package evaluates it.
func selected(t *testing.T, expression string, device dracel.Device) bool {
	t.Helper()
	newExpression := environment.NewExpressions
	result := dracel.GetCompiler(dracel.Features{}).CompileCELExpression(expression, dracel.Options{EnvType: &newExpression})
	if result.Error != nil || result.MaxCost > resourcev1.CELSelectorExpressionMaxCost {
		t.Fatalf("%s: cost %d, error %v", expression, result.MaxCost, result.Error)
	}
	matches, _, err := result.DeviceMatches(t.Context(), device)
	if err != nil {
		t.Errorf("%s: device %v: %v", expression, device, err)
	}
	return matches
}

// The expressions in the documentation select the device that they describe. They cause no error for a device with the
// fewest attributes.
func TestDocumentedSelectors(t *testing.T) {
	afu, region, bus, otherBus := "d8424dc4a4a3c413f89e433683f9040b", "69528db6eb31577a8c3668f9faa081f6", "0000:3b:00.0", "0000:5e:00.0"
	const busID = resourcev1.QualifiedName("resource.kubernetes.io/pciBusID")
	wanted := dracel.Device{Driver: driver, Attributes: map[resourcev1.QualifiedName]resourcev1.DeviceAttribute{
		"afuId": {StringValue: &afu}, "interfaceId": {StringValue: &region}, busID: {StringValue: &bus}, "resource.kubernetes.io/numaNode": {IntValue: new(int64(1))},
	}}
	bare := dracel.Device{Driver: driver, Attributes: map[resourcev1.QualifiedName]resourcev1.DeviceAttribute{busID: {StringValue: &otherBus}}}
	for file, count := range map[string]int{"../../docs/dra.md": 9, "../../docs/dra-reference.md": 1, "../../docs/which-way.md": 1, "../../deploy/examples/claim.yaml": 2} {
		found := regexp.MustCompile(`expression: ('[^']+'|[^'\n]+)`).FindAllStringSubmatch(read(t, file), -1)
		compare.Equal(t, file+": expressions", count, len(found))
		for _, f := range found {
			expression := strings.Trim(f[1], "'")
			compare.Equal(t, file+": "+expression+": selects the device", true, selected(t, expression, wanted))
			want := strings.Contains(expression, "degraded") || strings.Contains(expression, "bitstream")
			compare.Equal(t, file+": "+expression+": selects a device with the fewest attributes", want, selected(t, expression, bare))
		}
	}
}

// The API server accepts the objects, the claims and the parts of claims in the documentation, and the chart accepts
// the values there. (The ones for Kueue were not tried, as the page says.)
func TestDocumentedClaims(t *testing.T) {
	for page, want := range map[string]int{"dra.md": 10, "dra-explained.md": 1, "dra-reference.md": 1} {
		found := 0
		for _, m := range regexp.MustCompile("(?sm)^( *)```yaml\n(.*?)^ *```").FindAllStringSubmatch(read(t, "../../docs/"+page), -1) {
			example := strings.TrimPrefix(strings.ReplaceAll("\n"+m[2], "\n"+m[1], "\n"), "\n")
			var part any
			switch key, _, _ := strings.Cut(example, ":"); key {
			case "apiVersion":
				if strings.Contains(example, "kueue.x-k8s.io/") {
					continue
				}
				objects(t, example)
			case "dra":
				objects(t, plugin.rendered(t, "api: dra\n"+example))
			case "spec":
				part = &resourcev1.ResourceClaim{}
			case "requests":
				part = &resourcev1.DeviceClaim{}
			case "exactly":
				part = &resourcev1.DeviceRequest{}
			default:
				part = &resourcev1.ExactDeviceRequest{}
			}
			if part != nil {
				compare.NoError(t, page+":\n"+example, yaml.UnmarshalStrict([]byte(example), part))
			}
			found++
		}
		compare.Equal(t, page+": examples", want, found)
	}
}

// Evaluated by the scheduler's package, a class matches only devices of the driver with the class's IDs. A device
// without an ID, or of another driver, must not cause an error, because then the scheduler could not place any pod.
func TestDeviceClasses(t *testing.T) {
	const afu, region = "d8424dc4a4a3c413f89e433683f9040b", "69528db6eb31577a8c3668f9faa081f6"
	device := func(of string, attributes ...string) dracel.Device {
		d := dracel.Device{Driver: of, Attributes: map[resourcev1.QualifiedName]resourcev1.DeviceAttribute{}}
		for i := 0; i < len(attributes); i += 2 {
			d.Attributes[resourcev1.QualifiedName(attributes[i])] = resourcev1.DeviceAttribute{StringValue: &attributes[i+1]}
		}
		return d
	}
	devices := map[string]dracel.Device{
		"both":             device(driver, "afuId", afu, "interfaceId", region),
		"AFU":              device(driver, "afuId", afu),
		"another AFU":      device(driver, "afuId", region, "interfaceId", region),
		"without ids":      device(driver),
		"shell":            device(driver, "vbnv", "Xilinx:u250-xdma:{201830.2}#&'"),
		"another shell":    device(driver, "vbnv", "xilinx:u250xdma:{201830.2}#&'"),
		"another driver":   device("gpu.example.com", "afuId", afu),
		"its empty driver": device("gpu.example.com"),
	}
	got := map[string][]string{}     // names of the devices, by the class
	resources := map[string]string{} // extended resources, by the class
	for _, class := range every[*resourcev1.DeviceClass](objects(t, plugin.rendered(t, read(t, plugin.data+"/dra-everything.yaml")))) {
		if class.Spec.ExtendedResourceName != nil {
			resources[class.Name] = *class.Spec.ExtendedResourceName
		}
		for name, device := range devices {
			// The scheduler stops at the first selector that does not match.
			if !slices.ContainsFunc(class.Spec.Selectors, func(s resourcev1.DeviceSelector) bool { return !selected(t, s.CEL.Expression, device) }) {
				got[class.Name] = append(got[class.Name], name)
			}
		}
		slices.Sort(got[class.Name])
	}
	want := map[string][]string{
		driver:             {"AFU", "another AFU", "another shell", "both", "shell", "without ids"},
		"nlb.example.com":  {"AFU", "both"},
		"pac.example.com":  {"both"},
		"u250.example.com": {"shell"},
	}
	compare.Values(t, "devices of the classes", want, got)
	wantResources := map[string]string{
		driver: "b-com.com/accelerator", "nlb.example.com": "example.com/nlb", "u250.example.com": "amd.com/Xilinx_u250-xdma__201830.2____-1561465320",
	}
	compare.Values(t, "extended resources of the classes", wantResources, resources)
	compare.Empty(t, "classes with deviceClass: false", every[*resourcev1.DeviceClass](objects(t, plugin.rendered(t, "api: dra\ndra: {deviceClass: false}"))))
}

// expression implements NamedExpressionAccessor of the compiler.
type expression struct {
	admissioncel.ExpressionAccessor
	name string
}

func (e expression) GetName() string { return e.name }

// validator compiles a policy as the API server does, for the oldest version.
func validator(t *testing.T, policy *admissionregistrationv1.ValidatingAdmissionPolicy, oldest *version.Version) validating.Validator {
	t.Helper()
	compiler := must.Value(admissioncel.NewCompositedCompiler(environment.MustBaseEnvSet(version.MajorMinor(oldest.Major(), oldest.Minor()-1))))(t)
	declared := admissioncel.OptionalVariableDeclarations{HasAuthorizer: true}
	for _, v := range policy.Spec.Variables {
		variable := expression{&validating.Variable{Name: v.Name, Expression: v.Expression}, v.Name}
		// An API server accepts new expressions only if the version before it has their functions.
		if result := compiler.CompileAndStoreVariable(variable, declared, environment.NewExpressions); result.Error != nil {
			t.Fatalf("%s: %v", v.Name, result.Error)
		}
	}
	compile := func(all []admissioncel.ExpressionAccessor) admissioncel.ConditionEvaluator {
		evaluator := compiler.CompileCondition(all, declared, environment.NewExpressions)
		if errs := evaluator.CompilationErrors(); len(errs) > 0 {
			t.Fatal(errs)
		}
		return evaluator
	}
	var conditions, validations, messages []admissioncel.ExpressionAccessor
	for _, c := range policy.Spec.MatchConditions {
		conditions = append(conditions, (*matchconditions.MatchCondition)(&c))
	}
	for _, v := range policy.Spec.Validations {
		validations = append(validations, &validating.ValidationCondition{Expression: v.Expression, Message: v.Message, Reason: v.Reason})
		if v.MessageExpression == "" {
			messages = append(messages, nil)
		} else {
			messages = append(messages, &validating.MessageExpressionCondition{MessageExpression: v.MessageExpression})
		}
	}
	matcher := matchconditions.NewMatcher(compile(conditions), policy.Spec.FailurePolicy, "policy", "validate", policy.Name)
	return validating.NewValidator(compile(validations), matcher, compile(nil), compile(messages), policy.Spec.FailurePolicy, nil)
}

// policyNamed returns the policy with a name and its binding, which must make it deny everywhere.
func policyNamed(t *testing.T, all []runtime.Object, name string) (*admissionregistrationv1.ValidatingAdmissionPolicy, *admissionregistrationv1.ValidatingAdmissionPolicyBinding) {
	t.Helper()
	all = slices.DeleteFunc(all, func(o runtime.Object) bool { return o.(metav1.Object).GetName() != name })
	policy := only[*admissionregistrationv1.ValidatingAdmissionPolicy](t, all)
	binding := only[*admissionregistrationv1.ValidatingAdmissionPolicyBinding](t, all)
	compare.Values(t, "binding", admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec{
		PolicyName: name, ValidationActions: []admissionregistrationv1.ValidationAction{admissionregistrationv1.Deny},
	}, binding.Spec)
	compare.Equal(t, "failurePolicy", admissionregistrationv1.Fail, *policy.Spec.FailurePolicy)
	if match := policy.Spec.MatchConstraints.MatchPolicy; match != nil { // the default is Equivalent
		compare.Equal(t, "matchPolicy", admissionregistrationv1.Equivalent, *match)
	}
	return policy, binding
}

// The oldest API server can compile the policy for configurations. The results of the policy are tested with a real API
// server, in dra/claims.
func TestConfigPolicy(t *testing.T) {
	policy, _ := policyNamed(t, objects(t, plugin.rendered(t, "api: dra")), "accelerators-fpga-accelerator-device-plugin-config")
	validator(t, policy, oldest)
}

// Evaluated by the API server's package, the policy lets the driver change only ResourceSlices of the
// node of its token.
func TestPolicy(t *testing.T) {
	policy, _ := policyNamed(t, objects(t, plugin.rendered(t, "api: dra")), "accelerators-fpga-accelerator-device-plugin")
	rule := admissionregistrationv1.RuleWithOperations{
		Operations: []admissionregistrationv1.OperationType{"CREATE", "UPDATE", "DELETE"},
		Rule:       admissionregistrationv1.Rule{APIGroups: []string{"resource.k8s.io"}, APIVersions: []string{"v1"}, Resources: []string{"resourceslices"}},
	}
	compare.Values(t, "rules", []admissionregistrationv1.NamedRuleWithOperations{{RuleWithOperations: rule}}, policy.Spec.MatchConstraints.ResourceRules)
	evaluator := validator(t, policy, oldest)

	slice := func(node, of string) *resourcev1.ResourceSlice {
		s := &resourcev1.ResourceSlice{TypeMeta: metav1.TypeMeta{APIVersion: "resource.k8s.io/v1", Kind: "ResourceSlice"}, Spec: resourcev1.ResourceSliceSpec{Driver: of, NodeName: &node, Pool: resourcev1.ResourcePool{Name: node}}}
		if node == "" {
			s.Spec.NodeName, s.Spec.AllNodes = nil, new(true)
		}
		for range resourcev1.ResourceSliceMaxDevices {
			s.Spec.Devices = append(s.Spec.Devices, resourcev1.Device{Name: "pci-0000-3b-00-0"})
		}
		return s
	}
	const account, key = "system:serviceaccount:accelerators:fpga-accelerator-device-plugin", "authentication.kubernetes.io/node-name"
	token := func(name string, nodes ...string) user.Info {
		return &user.DefaultInfo{Name: name, Extra: map[string][]string{key: nodes, "authentication.kubernetes.io/pod-name": {"a"}}}
	}
	here, there, foreign, everywhere := slice("here", driver), slice("there", driver), slice("here", "gpu.example.com"), slice("", driver)
	posing := slice("here", driver) // as a slice with devices of another node
	posing.Spec.Pool.Name = "there"
	const otherPool = `"there", want "here", the node of the token`
	const otherNode, otherDriver, noNode = "want \"here\", the node of the token", "spec.driver: found another driver", "found a token without the name of a node"
	for _, tt := range []struct {
		name        string
		user        user.Info
		old, object runtime.Object
		want        string // in the message; "": admitted
	}{
		{"create", token(account, "here"), nil, here, ""},
		{"update", token(account, "here"), here, here, ""},
		{"delete", token(account, "here"), here, nil, ""},
		{"create for another node", token(account, "here"), nil, there, `spec.nodeName: found "there", ` + otherNode},
		{"create for all nodes", token(account, "here"), nil, everywhere, `spec.nodeName: found "", ` + otherNode},
		{"delete that of another node", token(account, "here"), there, nil, otherNode},
		{"delete that of all nodes", token(account, "here"), everywhere, nil, otherNode},
		{"take that of another node", token(account, "here"), there, here, `found "there", "here", ` + otherNode},
		{"give to another node", token(account, "here"), here, there, otherNode},
		{"create for another driver", token(account, "here"), nil, foreign, otherDriver},
		{"delete that of another driver", token(account, "here"), foreign, nil, otherDriver},
		{"take that of another driver", token(account, "here"), foreign, here, otherDriver},
		{"create for the pool of another node", token(account, "here"), nil, posing, "spec.pool.name: found " + otherPool},
		{"give to the pool of another node", token(account, "here"), here, posing, `spec.pool.name: found "here", ` + otherPool},
		{"token without node", token(account), nil, here, noNode},
		{"token with an empty node", token(account, ""), nil, everywhere, noNode},
		{"token without extra", &user.DefaultInfo{Name: account}, here, nil, noNode},
		{"token with other extra", &user.DefaultInfo{Name: account, Extra: map[string][]string{"x": {"here"}}}, nil, here, noNode},
		{"the kubelet", token("system:node:there"), here, nil, ""},
		{"another account", token("system:serviceaccount:gpu:fpga-accelerator-device-plugin"), nil, foreign, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			refuses(t, evaluator, "", tt.object, tt.old, tt.user, tt.want)
		})
	}
}

// refuses checks that a policy refuses a change with a message, or admits it if want is "". Which of the two forms of an
// object is evaluated depends on the version of the API server.
func refuses(t *testing.T, policy validating.Validator, subresource string, object, old runtime.Object, by user.Info, want string) {
	t.Helper()
	for _, form := range [][]runtime.Object{{object, old}, {asUnstructured(t, object), asUnstructured(t, old)}} {
		text := refusals(t, policy, subresource, form[0], form[1], by)
		compare.Equal(t, "admitted", want == "", text == "")
		compare.Contains(t, "messages", want, text)
	}
}

// refusals returns the messages with which a policy refuses a change; "": it admits the change.
func refusals(t *testing.T, policy validating.Validator, subresource string, object, old runtime.Object, by user.Info) string {
	t.Helper()
	operation, changed := admission.Update, object
	if old == nil {
		operation = admission.Create
	} else if object == nil {
		operation, changed = admission.Delete, old
	}
	gvk := changed.GetObjectKind().GroupVersionKind()
	gvr, _ := meta.UnsafeGuessKindToResource(gvk)
	record := admission.NewAttributesRecord(object, old, gvk, "", "a", gvr, subresource, operation, nil, false, by)
	attributes := &admission.VersionedAttributes{Attributes: record, VersionedKind: gvk}
	if object != nil {
		attributes.VersionedObject = admission.NewLazyObject(object)
	}
	if old != nil {
		attributes.VersionedOldObject = admission.NewLazyObject(old)
	}
	messages := map[string]bool{}
	for _, d := range policy.Validate(context.Background(), gvr, attributes, nil, nil, celconfig.RuntimeCELCostBudget/100, nil).Decisions {
		if d.Evaluation == validating.EvalError {
			t.Errorf("error %s", d.Message)
		}
		if d.Action != validating.ActionAdmit {
			messages[d.Message] = true
		}
	}
	return strings.Join(slices.Sorted(maps.Keys(messages)), "; ")
}

func asUnstructured(t *testing.T, o runtime.Object) runtime.Object {
	if o == nil {
		return nil
	}
	return &unstructured.Unstructured{Object: must.Value(runtime.DefaultUnstructuredConverter.ToUnstructured(o))(t)}
}
