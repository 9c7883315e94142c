package certificate

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"slices"
	"time"

	"go.uber.org/zap"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"b-com.com/accelerator-device-plugin/internal/logevent"
	"b-com.com/accelerator-device-plugin/operator/metrics"
)

// caOverlap is how long a CA remains trusted after it has been replaced.
const caOverlap = 10 * time.Minute

// Injector writes the CA from a Secret to all webhooks in a MutatingWebhookConfiguration.
type Injector struct {
	Client        client.Client
	Configuration string
	Secret        types.NamespacedName
	Metrics       *metrics.Metrics
	Log           *zap.Logger

	current *x509.Certificate // the last CA that Reconcile saw
	since   time.Time         // when Reconcile first saw current
}

// SetupWithManager registers Reconcile with the manager for changes to the Secret and the configuration. The manager's
// cache shouldn't contain any other objects of these kinds.
func (i *Injector) SetupWithManager(mgr ctrl.Manager) error {
	requests := []reconcile.Request{{NamespacedName: types.NamespacedName{Name: i.Configuration}}}
	return ctrl.NewControllerManagedBy(mgr).Named("ca").For(&admissionv1.MutatingWebhookConfiguration{}).
		Watches(&corev1.Secret{}, handler.EnqueueRequestsFromMapFunc(func(context.Context, client.Object) []reconcile.Request { return requests })).
		Complete(i)
}

// Reconcile implements [reconcile.Reconciler]. It must not be called concurrently.
func (i *Injector) Reconcile(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
	var configuration admissionv1.MutatingWebhookConfiguration
	if err := i.Client.Get(ctx, client.ObjectKey{Name: i.Configuration}, &configuration); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	var secret corev1.Secret
	if err := i.Client.Get(ctx, i.Secret, &secret); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	all := authorities(secret.Data[corev1.TLSCertKey])
	if len(all) == 0 {
		return reconcile.Result{}, nil // the authority will generate a CA, which triggers Reconcile
	}
	now := time.Now()
	if i.current == nil || !i.current.Equal(all[0]) {
		i.current, i.since = all[0], now
		i.Metrics.CAExpires(i.current.NotAfter)
	}
	rest := max(0, i.since.Add(caOverlap).Sub(now))

	// Use a patch, because an update would drop fields that only newer versions of Kubernetes know about. The patch
	// contains the resource version that was read: if the object has changed since then, the API server rejects the
	// patch, and Reconcile is called again.
	//
	// The API server records the operator as the owner of caBundle only, with the operation Update. So Helm, which
	// applies the other fields, doesn't get a conflict and doesn't reset caBundle. Server-side apply wouldn't work: if
	// Helm removed or renamed a webhook, the operator's fields (the name and caBundle) would stay, without the required
	// ones.
	before := configuration.DeepCopy()
	count := 0
	for n := range configuration.Webhooks {
		c := &configuration.Webhooks[n].ClientConfig
		var kept int
		c.CABundle, kept = bundle(i.current, c.CABundle, rest > 0, now)
		count = max(count, kept)
	}
	var result reconcile.Result
	if count > 1 {
		result.RequeueAfter = rest
	}
	if slices.EqualFunc(before.Webhooks, configuration.Webhooks, func(a, b admissionv1.MutatingWebhook) bool {
		return bytes.Equal(a.ClientConfig.CABundle, b.ClientConfig.CABundle)
	}) {
		return result, nil
	}
	if err := i.Client.Patch(ctx, &configuration, client.StrategicMergeFrom(before, client.MergeFromWithOptimisticLock{})); err != nil {
		return reconcile.Result{}, fmt.Errorf("caBundle of MutatingWebhookConfiguration %s: %w", i.Configuration, err)
	}
	i.Log.Info("CA injected", logevent.CAInjected, logevent.Object("MutatingWebhookConfiguration/"+i.Configuration), logevent.Count(count), logevent.Expires(i.current.NotAfter))
	return result, nil
}

// bundle returns a caBundle and the number of CAs in it. It starts with the current CA. If keep is true, the CAs in the
// previous caBundle (before) follow, unless they have expired.
func bundle(current *x509.Certificate, before []byte, keep bool, now time.Time) ([]byte, int) {
	all := []*x509.Certificate{current}
	if keep {
		for _, ca := range authorities(before) {
			if now.Before(ca.NotAfter) && !slices.ContainsFunc(all, ca.Equal) {
				all = append(all, ca)
			}
		}
	}
	var text bytes.Buffer
	for _, ca := range all {
		_ = pem.Encode(&text, &pem.Block{Type: "CERTIFICATE", Bytes: ca.Raw}) // writing to a Buffer can't fail
	}
	return text.Bytes(), len(all)
}

// authorities returns the CAs in PEM text. It ignores everything else.
func authorities(text []byte) []*x509.Certificate {
	var all []*x509.Certificate
	for {
		var block *pem.Block
		if block, text = pem.Decode(text); block == nil {
			return all
		}
		if block.Type != "CERTIFICATE" {
			continue
		}
		if ca, err := x509.ParseCertificate(block.Bytes); err == nil && ca.IsCA {
			all = append(all, ca)
		}
	}
}
