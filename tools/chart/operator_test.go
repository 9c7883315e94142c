package chart_test

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/cel-go/cel"
	celtypes "github.com/google/cel-go/common/types"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/apiserver/pkg/admission"
	admissioncel "k8s.io/apiserver/pkg/admission/plugin/cel"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/cel/environment"
	"k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"

	"b-com.com/accelerator-device-plugin/test/compare"
	"b-com.com/accelerator-device-plugin/test/must"
)

func TestOperatorRefused(t *testing.T) {
	operator.refuses(t, []refused{
		{"unknown key", "replica: 1", "additional properties 'replica' not allowed"},
		{"tag that YAML takes for a number", "image: {tag: 1.10}", "got number, want string"},
		{"repository without a registry", "image: {pullPolicy: Always}", `image.repository: found "accelerator-operator" with pullPolicy Always, want a name with a registry (REGISTRY/accelerator-operator), or pullPolicy Never`},
		{"no replica", "replicas: 0", "minimum: got 0, want 1"},
		{"domain in capitals", "resourceNamespace: FPGA.intel.com", "at '/resourceNamespace'"},
		{"domain with a quotation mark", `resourceNamespace: "a'b"`, "at '/resourceNamespace'"},
		{"domain with a slash", "resourceNamespace: fpga.intel.com/", "at '/resourceNamespace'"},
		{"failure policy", "webhook: {failurePolicy: fail}", "'Fail', 'Ignore'"},
		{"namespaces by a pattern", "webhook: {excludedNamespaces: ['kube-*']}", "at '/webhook/excludedNamespaces/0'"},
		{"client CA that is no PEM", "webhook: {clientCA: kubernetes}", "at '/webhook/clientCA'"},
		{"key for a client CA", "webhook: {clientCA: '-----BEGIN PRIVATE KEY-----'}", "at '/webhook/clientCA'"},
		{"no issuer", "certificates: {source: certManager}", "certificates.issuer.name: found none, want the name of an issuer, because certificates.source is certManager"},
		{"kind of issuer", "certificates: {issuer: {kind: ''}}", "at '/certificates/issuer/kind'"},
		{"account without name", "serviceAccount: {create: false}", "serviceAccount.name: found none, want the name of an account"},
		{"label of the chart", "podLabels: {app.kubernetes.io/name: x}", "invalid propertyName 'app.kubernetes.io/name'"},
		{"interval without unit", "podMonitor: {interval: '15'}", "at '/podMonitor/interval'"},
		{"scraper without selector", "scrapers: [{}]", "minProperties"},
		{"quantity", "resources: {limits: {memory: 128MB}}", "at '/resources/limits/memory'"},
		{"namespace of the test", "test: {namespace: A}", "at '/test/namespace'"},
	})
}

func TestEveryValueOfTheOperatorHasAnEffect(t *testing.T) {
	const certManager = `certificates={"source":"certManager","issuer":{"name":"ca"}}`
	operator.everyValueHasAnEffect(t, map[string]change{
		"image.repository":           {to: `"example.com/x"`},
		"image.tag":                  {to: `"v9"`},
		"image.digest":               {to: `"sha256:` + strings.Repeat("0", 64) + `"`},
		"image.pullPolicy":           {to: `"Always"`, beside: `image.repository="example.com/x"`},
		"imagePullSecrets":           {to: `[{"name":"x"}]`},
		"nameOverride":               {to: `"x"`},
		"fullnameOverride":           {to: `"x"`},
		"crds":                       {to: `false`},
		"replicas":                   {to: `3`},
		"resourceNamespace":          {to: `"example.com"`},
		"mappings.enabled":           {to: `false`},
		"devicePlugins.enabled":      {to: `true`},
		"devicePlugins.image":        {to: `"x"`, beside: "devicePlugins.enabled=true"},
		"webhook.failurePolicy":      {to: `"Ignore"`},
		"webhook.timeoutSeconds":     {to: `6`},
		"webhook.excludedNamespaces": {to: `[]`},
		"webhook.clientCA":           {to: `"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"`},
		"certificates.source":        {to: `"certManager"`, beside: `certificates.issuer.name="ca"`},
		"certificates.issuer.name":   {to: `"x"`, beside: certManager},
		"certificates.issuer.kind":   {to: `"ClusterIssuer"`, beside: certManager},
		"certificates.issuer.group":  {to: `"example.com"`, beside: certManager},
		"log.level":                  {to: `"debug"`},
		"log.format":                 {to: `"console"`},
		"serviceAccount.create":      {to: `false`, beside: `serviceAccount.name="x"`},
		"serviceAccount.name":        {to: `"x"`},
		"serviceAccount.annotations": {to: `{"a":"b"}`},
		"networkPolicy":              {to: `false`},
		"scrapers":                   {to: `[{"podSelector":{}}]`},
		"podMonitor.enabled":         {to: `true`},
		"podMonitor.labels":          {to: `{"a":"b"}`, beside: `podMonitor.enabled=true`},
		"podMonitor.interval":        {to: `"15s"`, beside: `podMonitor.enabled=true`},
		"priorityClassName":          {to: `"x"`},
		"tolerations":                {to: `[{"operator":"Exists"}]`},
		"nodeSelector":               {to: `{"a":"b"}`},
		"resources":                  {to: `{"limits":{"memory":"1Gi"}}`},
		"podLabels":                  {to: `{"a":"b"}`},
		"podAnnotations":             {to: `{"a":"b"}`},
		"test.namespace":             {to: `"x"`},
	})
}

// The pods, and the pod of helm test, satisfy the restricted Pod Security Standard.
func TestOperatorIsRestricted(t *testing.T) {
	evaluator := must.Value(policy.NewEvaluator(policy.DefaultChecks(), nil))(t)
	restricted := api.LevelVersion{Level: api.LevelRestricted, Version: api.LatestVersion()}
	check := func(t *testing.T, meta metav1.ObjectMeta, spec corev1.PodSpec) {
		if r := policy.AggregateCheckResults(evaluator.EvaluatePod(restricted, &meta, &spec)); !r.Allowed {
			t.Errorf("pod: %s", r.ForbiddenDetail())
		}
		for _, c := range spec.Containers {
			compare.Equal(t, c.Name+": readOnlyRootFilesystem", true, *c.SecurityContext.ReadOnlyRootFilesystem)
		}
		compare.Equal(t, "enableServiceLinks", false, *spec.EnableServiceLinks) // else it gets the variables of all Services
	}
	operator.sets(t, func(t *testing.T, values, manifests string) {
		all := objects(t, manifests)
		template := only[*appsv1.Deployment](t, all).Spec.Template
		check(t, template.ObjectMeta, template.Spec)
		for _, v := range template.Spec.Volumes {
			if (v.Name != "tls" || v.Secret == nil) && (v.Name != "client-ca" || v.ConfigMap == nil) {
				t.Errorf("volume %s, want only tls, a Secret, and client-ca, a ConfigMap", v.Name)
			}
		}
		for _, c := range template.Spec.Containers {
			for _, m := range c.VolumeMounts {
				compare.Equal(t, "mount "+m.Name+" is read-only", true, m.ReadOnly)
			}
		}
		tests := every[*corev1.Pod](all)
		for _, pod := range tests {
			check(t, pod.ObjectMeta, pod.Spec)
			compare.Equal(t, "token of helm test", false, *pod.Spec.AutomountServiceAccountToken)
		}
		compare.Equal(t, "has no helm test", strings.Contains(values, "mappings: {enabled: false}"), len(tests) == 0)
	})
}

// The webhook is called for the pods of all namespaces except the excluded ones.
func TestWebhook(t *testing.T) {
	w := webhook(t, "webhook: {excludedNamespaces: [lab, kube-system]}")
	service := w.ClientConfig.Service
	if service.Namespace != space || service.Name != "fpga-accelerator-operator" || *service.Path != "/pods" || *service.Port != 443 {
		t.Errorf("the webhook calls %v", service)
	}
	if w.ClientConfig.CABundle != nil {
		t.Error("the chart has a CA, want none: an upgrade would overwrite the injected CA")
	}
	want := []metav1.LabelSelectorRequirement{{
		Key: "kubernetes.io/metadata.name", Operator: metav1.LabelSelectorOpNotIn, Values: []string{space, "kube-system", "lab"},
	}}
	compare.Values(t, "namespaces", want, w.NamespaceSelector.MatchExpressions)
	// helm test has no pod in an excluded namespace.
	for namespace, test := range map[string]bool{"default": true, "lab": false, space: false} {
		out := operator.rendered(t, "webhook: {excludedNamespaces: [lab]}\ntest: {namespace: "+namespace+"}")
		compare.Equal(t, "test in namespace "+namespace, test, strings.Contains(out, "helm.sh/hook: test"))
	}
}

func webhook(t *testing.T, values string) admissionregistrationv1.MutatingWebhook {
	t.Helper()
	all := only[*admissionregistrationv1.MutatingWebhookConfiguration](t, objects(t, operator.rendered(t, values))).Webhooks
	if len(all) != 1 {
		t.Fatalf("%d webhooks, want 1", len(all))
	}
	return all[0]
}

// The rendered CRDs are the generated ones, and stay when the release is uninstalled.
func TestCRDs(t *testing.T) {
	all := objects(t, operator.rendered(t, "devicePlugins: {enabled: true}"))
	got, want := map[string]apiextensionsv1.CustomResourceDefinitionSpec{}, map[string]apiextensionsv1.CustomResourceDefinitionSpec{}
	for _, crd := range every[*apiextensionsv1.CustomResourceDefinition](all) {
		got[crd.Name] = crd.Spec
		compare.Equal(t, crd.Name+": resource-policy", "keep", crd.Annotations["helm.sh/resource-policy"])
		compare.Equal(t, crd.Name+": instance", release, crd.Labels["app.kubernetes.io/instance"])
	}
	for _, file := range must.Value(filepath.Glob(operator.dir + "/files/crds/*.yaml"))(t) {
		crd := only[*apiextensionsv1.CustomResourceDefinition](t, objects(t, read(t, file)))
		want[crd.Name] = crd.Spec
	}
	compare.Values(t, "CRDs", want, got)
	compare.Equal(t, "has CRDs", true, len(want) > 0)
}

// condition implements ExpressionAccessor of the compiler.
type condition string

func (c condition) GetExpression() string    { return string(c) }
func (c condition) ReturnTypes() []*cel.Type { return []*cel.Type{cel.BoolType} }

// Evaluated by the API server's package, the condition matches only pods with a name of the domain, and pods that would
// be costly to search. Its cost is far below the limits of the API server. Above these limits the API server refuses
// pods, or does not call the webhook.
func TestMatchConditions(t *testing.T) {
	conditions := webhook(t, "").MatchConditions
	compare.Equal(t, "conditions", 1, len(conditions))
	expressions := []admissioncel.ExpressionAccessor{condition(conditions[0].Expression)}
	// Kubernetes 1.30 accepts new expressions only with functions that 1.29 has.
	oldest := admissioncel.NewConditionCompiler(environment.MustBaseEnvSet(version.MajorMinor(1, 29)))
	declared := admissioncel.OptionalVariableDeclarations{HasAuthorizer: true}
	if errs := oldest.CompileCondition(expressions, declared, environment.NewExpressions).CompilationErrors(); len(errs) > 0 {
		t.Fatal(errs)
	}
	evaluator := oldest.CompileCondition(expressions, declared, environment.StoredExpressions)

	// container returns a container with resources of these names, separated by spaces.
	container := func(limits, requests string) corev1.Container {
		list := func(names string) corev1.ResourceList {
			if names == "" {
				return nil
			}
			all := corev1.ResourceList{}
			for name := range strings.SplitSeq(names, " ") {
				all[corev1.ResourceName(name)] = resource.MustParse("1")
			}
			return all
		}
		return corev1.Container{Name: "a", Image: "x", Resources: corev1.ResourceRequirements{Limits: list(limits), Requests: list(requests)}}
	}
	containers := func(all ...corev1.Container) corev1.PodSpec { return corev1.PodSpec{Containers: all} }
	const usual = "cpu memory ephemeral-storage example.com/gpu example.com/nic"
	many := make([]corev1.Container, 100)
	for i := range many {
		many[i] = container(usual, usual)
	}
	manyNames := make([]string, 60_000) // as many as a pod of 3 MiB has
	for i := range manyNames {
		manyNames[i] = fmt.Sprintf("example.com/%d", i)
	}
	worst := slices.Repeat([]corev1.Container{container(strings.Join(manyNames[:25], " "), strings.Join(manyNames[:25], " "))}, 100)
	for _, tt := range []struct {
		name string
		spec corev1.PodSpec
		want bool
	}{
		{"no container", corev1.PodSpec{}, false},
		{"no resources", containers(container("", "")), false},
		{"no limits", containers(container("", "cpu")), false},
		{"others", containers(container(usual, usual)), false},
		{"limits", containers(container("cpu fpga.intel.com/nlb0", "cpu")), true},
		{"requests", containers(container("", "fpga.intel.com/nlb0")), true},
		{"second container", containers(container("", ""), container("", ""), container("fpga.intel.com/nlb0", "")), true},
		{"init container", corev1.PodSpec{Containers: many[:1], InitContainers: []corev1.Container{container("fpga.intel.com/nlb0", "")}}, true},
		{"init containers without", corev1.PodSpec{Containers: many[:1], InitContainers: many[:2]}, false},
		{"name of a resource", containers(container("fpga.intel.com/region-69528db6eb31577a8c3668f9faa081f6", "")), true},
		{"domain in the middle", containers(container("x.fpga.intel.com/a fpga.intel.com.x/a", "example.com/fpga.intel.com/")), false},
		{"domain without slash", containers(container("fpga.intel.com", "")), false},
		{"other character for a dot", containers(container("fpga-intel.com/a fpga.intelxcom/a", "")), false},
		{"ephemeral containers", corev1.PodSpec{Containers: many[:1], EphemeralContainers: []corev1.EphemeralContainer{{}}}, false},
		{"100 containers", corev1.PodSpec{Containers: many, InitContainers: many}, false},
		{"100 containers, the last", containers(append(slices.Clone(many[1:]), container("", "fpga.intel.com/nlb0"))...), true},
		{"25 limits and requests in 100 containers", corev1.PodSpec{Containers: worst, InitContainers: worst}, false},
		{"101 containers", containers(append(slices.Clone(many), many[0])...), true},
		{"101 init containers", corev1.PodSpec{Containers: many[:1], InitContainers: append(slices.Clone(many), many[0])}, true},
		{"many limits", containers(many[0], container(strings.Join(manyNames, " "), "")), true},
		{"many requests", containers(many[0], container("", strings.Join(manyNames, " "))), true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			pod := &corev1.Pod{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}, Spec: tt.spec}
			gvk, gvr := corev1.SchemeGroupVersion.WithKind("Pod"), corev1.SchemeGroupVersion.WithResource("pods")
			// Which of the two forms is evaluated depends on the version of the API server.
			for _, form := range []runtime.Object{pod, asUnstructured(t, pod)} {
				record := admission.NewAttributesRecord(form, nil, gvk, "lab", "", gvr, "", admission.Create, nil, false, nil)
				attributes := &admission.VersionedAttributes{Attributes: record, VersionedKind: gvk, VersionedObject: admission.NewLazyObject(form)}
				request := admissioncel.CreateAdmissionRequest(record, metav1.GroupVersionResource(gvr), metav1.GroupVersionKind(gvk))
				results, left, err := evaluator.ForInput(context.Background(), attributes, request, admissioncel.OptionalVariableBindings{}, nil, celconfig.RuntimeCELCostBudgetMatchConditions)
				must.Succeed(t, err)
				if results[0].Error != nil || results[0].EvalResult != celtypes.Bool(tt.want) {
					t.Errorf("%T: %v, error %v, want %t", form, results[0].EvalResult, results[0].Error, tt.want)
				}
				if cost := celconfig.RuntimeCELCostBudgetMatchConditions - left; cost > celconfig.PerCallLimit/10 {
					t.Errorf("%T: cost %d, want a tenth of %d at most", form, cost, celconfig.PerCallLimit)
				}
			}
		})
	}
}
