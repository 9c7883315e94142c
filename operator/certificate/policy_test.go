package certificate_test

import (
	"bytes"
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/common/util"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/engine"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	yamlutil "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"b-com.com/accelerator-device-plugin/operator/certificate"
	"b-com.com/accelerator-device-plugin/test/compare"
	"b-com.com/accelerator-device-plugin/test/must"
)

// apply creates the objects of the operator's chart that concern its certificates, and returns its webhook
// configuration.
func apply(t *testing.T, admin client.Client) *admissionv1.MutatingWebhookConfiguration {
	t.Helper()
	c := must.Value(loader.LoadDir("../../deploy/helm/accelerator-operator"))(t)
	top := must.Value(util.ToRenderValues(c, map[string]any{}, common.ReleaseOptions{Name: "op", Namespace: secretName.Namespace}, nil))(t)
	files := must.Value(engine.Render(c, top))(t)
	var made *admissionv1.MutatingWebhookConfiguration
	for _, name := range []string{"serviceaccount", "rbac", "policy", "webhook"} {
		for _, text := range strings.Split(files["accelerator-operator/templates/"+name+".yaml"], "\n---\n") {
			raw := must.Value(yamlutil.ToJSON([]byte(text)))(t)
			o, _, err := scheme.Codecs.UniversalDeserializer().Decode(raw, nil, nil)
			if err != nil {
				t.Fatalf("%v:\n%s", err, text)
			}
			must.Succeed(t, admin.Create(t.Context(), o.(client.Object)))
			if w, ok := o.(*admissionv1.MutatingWebhookConfiguration); ok {
				made = w
			}
		}
	}
	return made
}

// With the chart's role and policy, a real API server lets the operator write and replace the CA, and refuses every
// other change of its webhook configuration.
func TestPolicy(t *testing.T) {
	bin := os.Getenv("ACCELERATOR_E2E_BIN")
	if bin == "" {
		t.Skip("NOT RUN: ACCELERATOR_E2E_BIN: found none, want a directory with etcd and kube-apiserver; make test-operator sets it if make e2e has built them")
	}
	env := &envtest.Environment{BinaryAssetsDirectory: bin}
	config := must.Value(env.Start())(t)
	t.Cleanup(func() {
		compare.NoError(t, "Stop", env.Stop())
	})
	admin := must.Value(client.New(config, client.Options{}))(t)
	ctx := t.Context()
	must.Succeed(t, admin.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: secretName.Namespace}}))
	name := client.ObjectKeyFromObject(apply(t, admin))
	ours := rest.CopyConfig(config)
	ours.Impersonate = rest.ImpersonationConfig{UserName: "system:serviceaccount:" + secretName.Namespace + ":op-accelerator-operator"}
	operator := must.Value(client.New(ours, client.Options{}))(t)
	now := func() *admissionv1.MutatingWebhookConfiguration {
		t.Helper()
		var w admissionv1.MutatingWebhookConfiguration
		must.Succeed(t, admin.Get(ctx, name, &w))
		return &w
	}
	patch := func(edit func(*admissionv1.MutatingWebhookConfiguration)) error {
		w := now()
		before := w.DeepCopy()
		edit(w)
		return operator.Patch(ctx, w, client.MergeFrom(before))
	}
	refused := func(err error) bool {
		return apierrors.IsForbidden(err) && strings.Contains(err.Error(), "want a change of caBundle only")
	}

	// The API server uses a new policy after some time.
	deadline := time.Now().Add(30 * time.Second)
	for i := 0; ; i++ {
		err := patch(func(w *admissionv1.MutatingWebhookConfiguration) {
			metav1.SetMetaDataAnnotation(&w.ObjectMeta, "try", time.Now().String())
		})
		if refused(err) {
			break
		}
		if err != nil || time.Now().After(deadline) {
			t.Fatalf("%v, want the policy to refuse it within 30 s", err)
		}
		<-time.After(100 * time.Millisecond)
	}

	for _, tc := range []struct {
		name string
		edit func(*admissionv1.MutatingWebhookConfiguration)
	}{
		{"label", func(w *admissionv1.MutatingWebhookConfiguration) { w.Labels["a"] = "b" }},
		{"label removed", func(w *admissionv1.MutatingWebhookConfiguration) { delete(w.Labels, "helm.sh/chart") }},
		{"owner", func(w *admissionv1.MutatingWebhookConfiguration) {
			w.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Namespace", Name: "default", UID: "u"}}
		}},
		{"annotation", func(w *admissionv1.MutatingWebhookConfiguration) {
			metav1.SetMetaDataAnnotation(&w.ObjectMeta, "a", "b")
		}},
		{"finalizer", func(w *admissionv1.MutatingWebhookConfiguration) { w.Finalizers = []string{"example.com/a"} }},
		{"object selector", func(w *admissionv1.MutatingWebhookConfiguration) {
			w.Webhooks[0].ObjectSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}
		}},
		{"rules", func(w *admissionv1.MutatingWebhookConfiguration) { w.Webhooks[0].Rules[0].Resources = []string{"*"} }},
		{"one more rule", func(w *admissionv1.MutatingWebhookConfiguration) {
			w.Webhooks[0].Rules = append(w.Webhooks[0].Rules, w.Webhooks[0].Rules[0])
		}},
		{"another service", func(w *admissionv1.MutatingWebhookConfiguration) { w.Webhooks[0].ClientConfig.Service.Name = "other" }},
		{"another path", func(w *admissionv1.MutatingWebhookConfiguration) { w.Webhooks[0].ClientConfig.Service.Path = new("/") }},
		{"URL", func(w *admissionv1.MutatingWebhookConfiguration) {
			w.Webhooks[0].ClientConfig.Service, w.Webhooks[0].ClientConfig.URL = nil, new("https://example.com")
		}},
		{"no conditions", func(w *admissionv1.MutatingWebhookConfiguration) { w.Webhooks[0].MatchConditions = nil }},
		{"no selector", func(w *admissionv1.MutatingWebhookConfiguration) { w.Webhooks[0].NamespaceSelector = nil }},
		{"failurePolicy", func(w *admissionv1.MutatingWebhookConfiguration) {
			w.Webhooks[0].FailurePolicy = new(admissionv1.Ignore)
		}},
		{"timeout", func(w *admissionv1.MutatingWebhookConfiguration) { w.Webhooks[0].TimeoutSeconds = new(int32(30)) }},
		{"one more webhook", func(w *admissionv1.MutatingWebhookConfiguration) {
			more := w.Webhooks[0].DeepCopy()
			more.Name = "all.example.com"
			w.Webhooks = append(w.Webhooks, *more)
		}},
		{"no webhook", func(w *admissionv1.MutatingWebhookConfiguration) { w.Webhooks = nil }},
		{"another name", func(w *admissionv1.MutatingWebhookConfiguration) { w.Webhooks[0].Name = "all.example.com" }},
		{"rules with the CA", func(w *admissionv1.MutatingWebhookConfiguration) {
			w.Webhooks[0].ClientConfig.CABundle = toPEM(newCA(t, time.Hour))
			w.Webhooks[0].Rules[0].Resources = []string{"*"}
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if err := patch(tc.edit); !refused(err) {
				t.Errorf("error %v, want the policy to refuse it", err)
			}
		})
	}
	// The operator can create its own Secret, and no other.
	create := func(name string, kind corev1.SecretType) error {
		return operator.Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: secretName.Namespace, Name: name,
			Annotations: map[string]string{corev1.ServiceAccountNameKey: "default"}}, Type: kind})
	}
	const own = "op-accelerator-operator-tls"
	for name, err := range map[string]error{"another name": create("other", ""), "a token": create(own, corev1.SecretTypeServiceAccountToken)} {
		if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "want a Secret "+own+" of type Opaque") {
			t.Errorf("a Secret with %s: error %v, want the policy to refuse it", name, err)
		}
	}
	compare.NoError(t, "the operator creates its Secret", create(own, ""))
	// The policies concern only the operator.
	w := now()
	w.Webhooks[0].TimeoutSeconds = new(int32(7))
	compare.NoError(t, "an administrator changes the webhook", admin.Update(ctx, w))

	// Inject a first CA, and then its renewal. The operator may only watch the Secret, not get it, so here it reads
	// through the administrator.
	i := certificate.Injector{Client: reading{operator, admin}, Configuration: name.Name, Secret: types.NamespacedName{Namespace: secretName.Namespace, Name: own}, Log: zap.NewNop()}
	s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: i.Secret.Namespace, Name: i.Secret.Name}}
	first, second := newCA(t, 24*time.Hour), newCA(t, 24*time.Hour)
	for _, tc := range []struct{ current, want []byte }{{toPEM(first), toPEM(first)}, {toPEM(second), toPEM(second, first)}} {
		s.Data = map[string][]byte{corev1.TLSCertKey: tc.current}
		must.Succeed(t, admin.Update(ctx, s))
		must.Value(i.Reconcile(ctx, reconcile.Request{}))(t)
		if got := now().Webhooks[0]; !bytes.Equal(got.ClientConfig.CABundle, tc.want) || *got.TimeoutSeconds != 7 {
			t.Errorf("webhook %+v, want caBundle %s", got, tc.want)
		}
	}
}

// reading is a client that reads through another one.
type reading struct {
	client.Client
	reader client.Reader
}

func (r reading) Get(ctx context.Context, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
	return r.reader.Get(ctx, key, o, opts...)
}
