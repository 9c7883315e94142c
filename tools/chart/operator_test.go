package chart_test

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	"github.com/google/cel-go/cel"
	celtypes "github.com/google/cel-go/common/types"
	"github.com/google/go-cmp/cmp"
	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/apiserver/pkg/admission"
	admissioncel "k8s.io/apiserver/pkg/admission/plugin/cel"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/cel/environment"
	"k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"
)

func TestOperatorRefused(t *testing.T) {
	operator.refuses(t, []refused{
		{"unknown key", "replica: 1", "additional properties 'replica' not allowed"},
		{"unknown key below", "webhook: {timeout: 5}", "additional properties 'timeout' not allowed"},
		{"tag that YAML takes for a number", "image: {tag: 1.10}", "got number, want string"},
		{"no replica", "replicas: 0", "minimum: got 0, want 1"},
		{"string for a boolean", "crds: 'yes'", "got string, want boolean"},
		{"domain in capitals", "resourceNamespace: FPGA.intel.com", "at '/resourceNamespace'"},
		{"domain with a quotation mark", `resourceNamespace: "a'b"`, "at '/resourceNamespace'"},
		{"domain with a slash", "resourceNamespace: fpga.intel.com/", "at '/resourceNamespace'"},
		{"failure policy", "webhook: {failurePolicy: fail}", "'Fail', 'Ignore'"},
		{"no time", "webhook: {timeoutSeconds: 0}", "minimum: got 0, want 1"},
		{"too much time", "webhook: {timeoutSeconds: 31}", "maximum: got 31, want 30"},
		{"seconds with a unit", "webhook: {timeoutSeconds: 5s}", "got string, want integer"},
		{"namespaces by a pattern", "webhook: {excludedNamespaces: ['kube-*']}", "at '/webhook/excludedNamespaces/0'"},
		{"source of certificates", "certificates: {source: cert-manager}", "'operator', 'certManager'"},
		{"no issuer", "certificates: {source: certManager}", "certificates.issuer.name: found none, want the name of an issuer, because certificates.source is certManager"},
		{"kind of issuer", "certificates: {issuer: {kind: ''}}", "at '/certificates/issuer/kind'"},
		{"log level", "log: {level: trace}", "'debug', 'info', 'warn', 'error'"},
		{"log format", "log: {format: text}", "'json', 'console'"},
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
		"image.pullPolicy":           {to: `"Never"`},
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
	evaluator, err := policy.NewEvaluator(policy.DefaultChecks(), nil)
	if err != nil {
		t.Fatal(err)
	}
	restricted := api.LevelVersion{Level: api.LevelRestricted, Version: api.LatestVersion()}
	check := func(t *testing.T, meta metav1.ObjectMeta, spec corev1.PodSpec) {
		if r := policy.AggregateCheckResults(evaluator.EvaluatePod(restricted, &meta, &spec)); !r.Allowed {
			t.Errorf("pod: %s", r.ForbiddenDetail())
		}
		for _, c := range spec.Containers {
			if !*c.SecurityContext.ReadOnlyRootFilesystem {
				t.Errorf("%s: writable root file system", c.Name)
			}
		}
		if *spec.EnableServiceLinks {
			t.Error("the pod gets the variables of all Services, want enableServiceLinks: false")
		}
	}
	operator.sets(t, func(t *testing.T, values, manifests string) {
		all := objects(t, manifests)
		template := only[*appsv1.Deployment](t, all).Spec.Template
		check(t, template.ObjectMeta, template.Spec)
		for _, v := range template.Spec.Volumes {
			if v.Name != "tls" || v.Secret == nil {
				t.Errorf("volume %s, want only tls, a Secret", v.Name)
			}
		}
		for _, c := range template.Spec.Containers {
			for _, m := range c.VolumeMounts {
				if !m.ReadOnly {
					t.Errorf("mount %s is writable", m.Name)
				}
			}
		}
		tests := 0
		for _, o := range all {
			if pod, ok := o.(*corev1.Pod); ok {
				tests++
				check(t, pod.ObjectMeta, pod.Spec)
				if *pod.Spec.AutomountServiceAccountToken {
					t.Error("the pod of helm test has a token")
				}
			}
		}
		if off := strings.Contains(values, "mappings: {enabled: false}"); (tests == 0) != off {
			t.Errorf("%d pods of helm test with mappings off: %t", tests, off)
		}
	})
}

// The pods have exactly the rights at the API server that operator/ needs, for each source of
// certificates.
func TestRightsOfTheOperator(t *testing.T) {
	mappings := []rbacv1.PolicyRule{
		{APIGroups: []string{"fpga.intel.com"}, Resources: []string{"acceleratorfunctions", "fpgaregions"}, Verbs: []string{"list", "watch"}},
		{APIGroups: []string{"fpga.intel.com"}, Resources: []string{"acceleratorfunctions/status", "fpgaregions/status"}, Verbs: []string{"patch"}},
	}
	lease := []rbacv1.PolicyRule{
		{APIGroups: []string{"coordination.k8s.io"}, Resources: []string{"leases"}, Verbs: []string{"create"}},
		{APIGroups: []string{"coordination.k8s.io"}, Resources: []string{"leases"}, ResourceNames: []string{"accelerator-operator", "accelerator-operator-without-ca"}, Verbs: []string{"get", "update"}},
		{APIGroups: []string{""}, Resources: []string{"events"}, Verbs: []string{"create", "patch"}},
	}
	injection := rbacv1.PolicyRule{APIGroups: []string{"admissionregistration.k8s.io"}, Resources: []string{"mutatingwebhookconfigurations"},
		ResourceNames: []string{"accelerators-fpga-accelerator-operator"}, Verbs: []string{"get", "list", "watch", "patch"}}
	authority := []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"create"}},
		{APIGroups: []string{""}, Resources: []string{"secrets"}, ResourceNames: []string{"fpga-accelerator-operator-tls"}, Verbs: []string{"list", "watch", "update"}},
	}
	for _, tt := range []struct {
		name, values        string
		cluster, namespaced []rbacv1.PolicyRule
	}{
		{"own certificates", "", append(slices.Clone(mappings), injection), append(slices.Clone(lease), authority...)},
		{"cert-manager", "certificates: {source: certManager, issuer: {name: ca}}", mappings, lease},
		{"without mappings", "mappings: {enabled: false}", nil, lease},
	} {
		t.Run(tt.name, func(t *testing.T) {
			all := objects(t, operator.rendered(t, tt.values))
			var cluster []rbacv1.PolicyRule
			for _, o := range all {
				if o, ok := o.(*rbacv1.ClusterRole); ok {
					cluster = append(cluster, o.Rules...)
				}
			}
			if diff := cmp.Diff(tt.cluster, cluster); diff != "" {
				t.Errorf("ClusterRole (-want +got):\n%s", diff)
			}
			role := only[*rbacv1.Role](t, all)
			if diff := cmp.Diff(tt.namespaced, role.Rules); diff != "" || role.Namespace != space {
				t.Errorf("Role in %s (-want +got):\n%s", role.Namespace, diff)
			}
		})
	}
}

// At least one pod keeps running during an upgrade, a drain of a node and a failure of a node.
func TestOperatorStaysAvailable(t *testing.T) {
	all := objects(t, operator.rendered(t, ""))
	deployment := only[*appsv1.Deployment](t, all)
	rolling := deployment.Spec.Strategy.RollingUpdate
	if *deployment.Spec.Replicas != 2 || rolling.MaxUnavailable.IntVal != 0 || rolling.MaxSurge.IntVal != 1 {
		t.Errorf("%d replicas, %v; want 2, maxUnavailable 0, maxSurge 1", *deployment.Spec.Replicas, rolling)
	}
	budget := only[*policyv1.PodDisruptionBudget](t, all).Spec
	if budget.MaxUnavailable.IntVal != 1 {
		t.Errorf("maxUnavailable of the budget is %v, want 1", budget.MaxUnavailable)
	}
	spread := deployment.Spec.Template.Spec.Affinity.PodAntiAffinity.PreferredDuringSchedulingIgnoredDuringExecution[0].PodAffinityTerm
	for object, selector := range map[string]map[string]string{
		"Deployment": deployment.Spec.Selector.MatchLabels, "budget": budget.Selector.MatchLabels, "affinity": spread.LabelSelector.MatchLabels,
		"Service": only[*corev1.Service](t, all).Spec.Selector, "policy": only[*networkingv1.NetworkPolicy](t, all).Spec.PodSelector.MatchLabels,
	} {
		if diff := cmp.Diff(selector, deployment.Spec.Template.Labels); diff != "" {
			t.Errorf("%s does not select the pods (-want +got):\n%s", object, diff)
		}
	}
	for _, o := range objects(t, operator.rendered(t, "replicas: 1")) {
		if _, ok := o.(*policyv1.PodDisruptionBudget); ok {
			t.Error("one replica has a PodDisruptionBudget, want none")
		}
	}
}

// All references to a port use its name.
func TestOperatorPorts(t *testing.T) {
	all := objects(t, operator.rendered(t, "podMonitor: {enabled: true}"))
	container := only[*appsv1.Deployment](t, all).Spec.Template.Spec.Containers[0]
	ports := map[string]int32{}
	for _, p := range container.Ports {
		ports[p.Name] = p.ContainerPort
	}
	if diff := cmp.Diff(map[string]int32{"webhook": 9443, "health": 9481, "metrics": 9482}, ports); diff != "" {
		t.Errorf("ports (-want +got):\n%s", diff)
	}
	names := []string{
		only[*corev1.Service](t, all).Spec.Ports[0].TargetPort.StrVal,
		container.ReadinessProbe.HTTPGet.Port.StrVal, container.LivenessProbe.HTTPGet.Port.StrVal,
		*only[*monitoringv1.PodMonitor](t, all).Spec.PodMetricsEndpoints[0].Port,
	}
	for _, rule := range only[*networkingv1.NetworkPolicy](t, all).Spec.Ingress {
		names = append(names, rule.Ports[0].Port.StrVal)
	}
	if diff := cmp.Diff([]string{"webhook", "health", "health", "metrics", "webhook", "metrics"}, names); diff != "" {
		t.Errorf("names of ports (-want +got):\n%s", diff)
	}
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
	if diff := cmp.Diff(want, w.NamespaceSelector.MatchExpressions); diff != "" {
		t.Errorf("namespaces (-want +got):\n%s", diff)
	}
	// helm test has no pod in an excluded namespace.
	for namespace, test := range map[string]bool{"default": true, "lab": false, space: false} {
		out := operator.rendered(t, "webhook: {excludedNamespaces: [lab]}\ntest: {namespace: "+namespace+"}")
		if strings.Contains(out, "helm.sh/hook: test") != test {
			t.Errorf("test in namespace %s: want %t", namespace, test)
		}
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

// The certificate of cert-manager has the name of the Service, its Secret is mounted, and
// cert-manager injects the CA into the webhook.
func TestCertManager(t *testing.T) {
	all := objects(t, operator.rendered(t, "certificates: {source: certManager, issuer: {name: ca}}"))
	certificate := only[*cmv1.Certificate](t, all)
	if diff := cmp.Diff([]string{"fpga-accelerator-operator.accelerators.svc"}, certificate.Spec.DNSNames); diff != "" {
		t.Errorf("names (-want +got):\n%s", diff)
	}
	from := only[*admissionregistrationv1.MutatingWebhookConfiguration](t, all).Annotations["cert-manager.io/inject-ca-from"]
	if from != certificate.Namespace+"/"+certificate.Name {
		t.Errorf("CA injected from %s, want %s/%s", from, certificate.Namespace, certificate.Name)
	}
	pod := only[*appsv1.Deployment](t, all).Spec.Template.Spec
	if got := pod.Volumes[0].Secret.SecretName; got != certificate.Spec.SecretName {
		t.Errorf("mounted Secret %s, want %s", got, certificate.Spec.SecretName)
	}
	if !slices.Contains(pod.Containers[0].Args, "--tls-cert-dir="+pod.Containers[0].VolumeMounts[0].MountPath) {
		t.Errorf("arguments %q", pod.Containers[0].Args)
	}
}

// The rendered CRDs are the generated ones, and stay when the release is uninstalled.
func TestCRDs(t *testing.T) {
	all := objects(t, operator.rendered(t, "devicePlugins: {enabled: true}"))
	files, err := filepath.Glob(operator.dir + "/files/crds/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no CRDs: %v", err)
	}
	for _, file := range files {
		want := only[*apiextensionsv1.CustomResourceDefinition](t, objects(t, read(t, file)))
		i := slices.IndexFunc(all, func(o runtime.Object) bool {
			crd, ok := o.(*apiextensionsv1.CustomResourceDefinition)
			return ok && crd.Name == want.Name
		})
		if i < 0 {
			t.Errorf("%s is not rendered", file)
			continue
		}
		got := all[i].(*apiextensionsv1.CustomResourceDefinition)
		if diff := cmp.Diff(want.Spec, got.Spec); diff != "" {
			t.Errorf("%s (-file +rendered):\n%s", file, diff)
		}
		if got.Annotations["helm.sh/resource-policy"] != "keep" || got.Labels["app.kubernetes.io/instance"] != release {
			t.Errorf("%s: annotations %v, labels %v", got.Name, got.Annotations, got.Labels)
		}
	}
}

// condition implements ExpressionAccessor of the compiler.
type condition string

func (c condition) GetExpression() string    { return string(c) }
func (c condition) ReturnTypes() []*cel.Type { return []*cel.Type{cel.BoolType} }

// Evaluated by the API server's package, the condition matches only pods with a name of the domain.
// Its cost is far below the limits of the API server, above which it refuses pods.
func TestMatchConditions(t *testing.T) {
	conditions := webhook(t, "").MatchConditions
	if len(conditions) != 1 {
		t.Fatalf("%d conditions, want 1", len(conditions))
	}
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
	many := make([]corev1.Container, 300)
	for i := range many {
		many[i] = container(usual, usual)
	}
	manyNames := make([]string, 5000)
	for i := range manyNames {
		manyNames[i] = fmt.Sprintf("example.com/%d-%s", i, strings.Repeat("a", 40))
	}
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
		{"name of a resource", containers(container("fpga.intel.com/region-ce48969398f05f33946d560708be108a", "")), true},
		{"domain in the middle", containers(container("x.fpga.intel.com/a fpga.intel.com.x/a", "example.com/fpga.intel.com/")), false},
		{"domain without slash", containers(container("fpga.intel.com", "")), false},
		{"other character for a dot", containers(container("fpga-intel.com/a fpga.intelxcom/a", "")), false},
		{"ephemeral containers", corev1.PodSpec{Containers: many[:1], EphemeralContainers: []corev1.EphemeralContainer{{}}}, false},
		{"300 containers", corev1.PodSpec{Containers: many, InitContainers: many}, false},
		{"300 containers, the last", corev1.PodSpec{Containers: append(slices.Clone(many), container("", "fpga.intel.com/nlb0"))}, true},
		{"5000 names", containers(container(strings.Join(manyNames, " "), "")), false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			pod := &corev1.Pod{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}, Spec: tt.spec}
			object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(pod)
			if err != nil {
				t.Fatal(err)
			}
			gvk, gvr := corev1.SchemeGroupVersion.WithKind("Pod"), corev1.SchemeGroupVersion.WithResource("pods")
			// Which of the two forms is evaluated depends on the version of the API server.
			for _, form := range []runtime.Object{pod, &unstructured.Unstructured{Object: object}} {
				record := admission.NewAttributesRecord(form, nil, gvk, "lab", "", gvr, "", admission.Create, nil, false, nil)
				attributes := &admission.VersionedAttributes{Attributes: record, VersionedKind: gvk, VersionedObject: admission.NewLazyObject(form)}
				request := admissioncel.CreateAdmissionRequest(record, metav1.GroupVersionResource(gvr), metav1.GroupVersionKind(gvk))
				results, left, err := evaluator.ForInput(context.Background(), attributes, request, admissioncel.OptionalVariableBindings{}, nil, celconfig.RuntimeCELCostBudgetMatchConditions)
				if err != nil {
					t.Fatal(err)
				}
				if results[0].Error != nil || results[0].EvalResult != celtypes.Bool(tt.want) {
					t.Errorf("%T: %v, error %v, want %t", form, results[0].EvalResult, results[0].Error, tt.want)
				}
				if cost := celconfig.RuntimeCELCostBudgetMatchConditions - left; cost > celconfig.PerCallLimit/10 {
					t.Errorf("%T: cost %d, want a tenth of %d at most", form, cost, celconfig.PerCallLimit)
				} else {
					t.Logf("cost %d of %d", cost, celconfig.PerCallLimit)
				}
			}
		})
	}
}
