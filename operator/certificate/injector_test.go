package certificate_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/pem"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"b-com.com/accelerator-device-plugin/operator/certificate"
	"b-com.com/accelerator-device-plugin/test/must"
)

func TestBundle(t *testing.T) {
	a, b, c := newCA(t, 2*time.Hour), newCA(t, time.Hour), newCA(t, 3*time.Hour)
	template := *a.Certificate
	template.IsCA = false
	leaf := ca{sign(t, &template, a.Certificate, b.key.Public(), a.key), b.key}
	for _, tc := range []struct {
		name   string
		before []byte
		keep   bool
		want   []ca
	}{
		{"empty", nil, true, []ca{a}},
		{"the same", toPEM(a), true, []ca{a}},
		{"another", toPEM(b), true, []ca{a, b}},
		{"another after the overlap", toPEM(a, b), false, []ca{a}},
		{"more, not in order, twice", toPEM(b, a, c, b), true, []ca{a, b, c}},
		{"garbage", []byte("garbage"), true, []ca{a}},
		{"garbage around", slices.Concat([]byte("garbage\n"), toPEM(b), []byte("\ngarbage\n"), toPEM(c)), true, []ca{a, b, c}},
		{"no certificates", pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: []byte("garbage")}), true, []ca{a}},
		{"key", pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: b.Raw}), true, []ca{a}},
		{"no CA", toPEM(leaf, b), true, []ca{a, b}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got, n := certificate.Bundle(a.Certificate, tc.before, tc.keep, time.Now()); !bytes.Equal(got, toPEM(tc.want...)) || n != len(tc.want) {
				t.Errorf("%d CAs, want %d:\n%s", n, len(tc.want), got)
			}
		})
	}
	if got, n := certificate.Bundle(a.Certificate, toPEM(b, c), true, b.NotAfter); !bytes.Equal(got, toPEM(a, c)) || n != 2 {
		t.Errorf("%d CAs, want 2, because the other has expired:\n%s", n, got)
	}
}

// For all old caBundles, the new one begins with the current CA. A second call does not change it.
func FuzzBundle(f *testing.F) {
	// The CAs are the same in each process of the fuzzer.
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	a := makeCA(f, ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize)), now, time.Hour)
	b := makeCA(f, ed25519.NewKeyFromSeed(bytes.Repeat([]byte{1}, ed25519.SeedSize)), now, time.Hour)
	f.Add(toPEM(b, a))
	f.Add(toPEM(b)[:100])
	f.Add([]byte("-----BEGIN CERTIFICATE-----\nAA==\n-----END CERTIFICATE-----\n"))
	f.Fuzz(func(t *testing.T, before []byte) {
		once, n := certificate.Bundle(a.Certificate, before, true, now)
		first, _ := pem.Decode(once)
		if first == nil || !bytes.Equal(first.Bytes, a.Raw) {
			t.Fatalf("want the current CA first in:\n%s", once)
		}
		if twice, m := certificate.Bundle(a.Certificate, once, true, now); !bytes.Equal(once, twice) || n != m {
			t.Errorf("%d CAs, then %d:\n%s\n%s", n, m, once, twice)
		}
		if only, _ := certificate.Bundle(a.Certificate, before, false, now); !bytes.Equal(only, toPEM(a)) {
			t.Errorf("want only the current CA, found:\n%s", only)
		}
	})
}

// cluster is a fake API server with an injector, in a synctest bubble.
type cluster struct {
	client.Client
	t        *testing.T
	injector *certificate.Injector
	logs     *observer.ObservedLogs
	writes   int
	race     func() // called before a write
}

func newCluster(t *testing.T, objects ...client.Object) *cluster {
	t.Helper()
	scheme := runtime.NewScheme()
	must.Succeed(t, errors.Join(corev1.AddToScheme(scheme), admissionv1.AddToScheme(scheme)))
	core, logs := observer.New(zap.InfoLevel)
	c := &cluster{t: t, logs: logs}
	c.Client = fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).Build()
	c.injector = &certificate.Injector{Configuration: "fpga", Secret: secretName, Log: zap.New(core),
		Client: interceptor.NewClient(c.Client.(client.WithWatch), interceptor.Funcs{
			Patch: func(ctx context.Context, w client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
				if c.writes++; c.race != nil {
					c.race()
				}
				return w.Patch(ctx, o, p, opts...)
			},
		})}
	return c
}

func configuration(bundles ...[]byte) *admissionv1.MutatingWebhookConfiguration {
	c := &admissionv1.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "fpga"}}
	for i, b := range bundles {
		c.Webhooks = append(c.Webhooks, admissionv1.MutatingWebhook{
			Name: []string{"a.example.com", "b.example.com"}[i], ClientConfig: admissionv1.WebhookClientConfig{URL: new("https://example.com"), CABundle: b},
			AdmissionReviewVersions: []string{"v1"},
		})
	}
	return c
}

func secret(crt []byte) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: secretName.Namespace, Name: secretName.Name}, Data: map[string][]byte{"tls.crt": crt}}
}

// reconcile calls Reconcile, and checks the bundles of all webhooks and the time until the next call.
func (c *cluster) reconcile(again time.Duration, want ...ca) {
	c.t.Helper()
	result, err := c.injector.Reconcile(context.Background(), reconcile.Request{})
	if err != nil || result.RequeueAfter != again {
		c.t.Fatalf("next call after %v, error %v, want %v", result.RequeueAfter, err, again)
	}
	var now admissionv1.MutatingWebhookConfiguration
	must.Succeed(c.t, c.Get(context.Background(), client.ObjectKey{Name: "fpga"}, &now))
	for _, w := range now.Webhooks {
		if !bytes.Equal(w.ClientConfig.CABundle, toPEM(want...)) || *w.ClientConfig.URL != "https://example.com" {
			c.t.Errorf("webhook %s: %+v", w.Name, w)
		}
	}
}

// change replaces the Secret.
func (c *cluster) change(crt []byte) {
	c.t.Helper()
	must.Succeed(c.t, c.Update(context.Background(), secret(crt)))
}

// The CA of the Secret is the first in all webhooks, and the previous CAs stay for ten minutes.
func TestInjector(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first, second, third := newCA(t, 24*time.Hour), newCA(t, 24*time.Hour), newCA(t, 24*time.Hour)
		c := newCluster(t, configuration(nil, []byte("garbage")), secret(toPEM(first)))
		c.reconcile(0, first)
		c.reconcile(0, first)
		if c.writes != 1 || c.logs.Len() != 1 {
			t.Fatalf("%d writes, log %v, want one: the second time nothing changed", c.writes, c.logs.All())
		}
		if m := c.logs.All()[0].ContextMap(); m["event"] != "ca.injected" || m["object"] != "MutatingWebhookConfiguration/fpga" || m["count"] != int64(1) || m["expires"] != "2000-01-02T00:00:00Z" {
			t.Errorf("log %v", m)
		}

		time.Sleep(time.Hour)
		c.change(toPEM(second))
		c.reconcile(10*time.Minute, second, first)
		time.Sleep(9 * time.Minute)
		c.reconcile(time.Minute, second, first)
		c.change(toPEM(third))
		c.reconcile(10*time.Minute, third, second, first)
		time.Sleep(10 * time.Minute)
		c.reconcile(0, third)

		// A Secret that was restored from a backup has an earlier CA.
		c.change(toPEM(first))
		c.reconcile(10*time.Minute, first, third)
	})
}

// While there is no Secret, or no CA in it, caBundle does not change.
func TestNoCA(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first := newCA(t, 24*time.Hour)
		c := newCluster(t, configuration(toPEM(first)), secret([]byte("garbage")))
		c.reconcile(0, first)
		must.Succeed(t, c.Delete(context.Background(), secret(nil)))
		c.reconcile(0, first)
		must.Succeed(t, c.Delete(context.Background(), configuration()))
		if result, err := c.injector.Reconcile(context.Background(), reconcile.Request{}); err != nil || result.RequeueAfter != 0 || c.writes != 0 {
			t.Errorf("%v, %v, %d writes", result, err, c.writes)
		}
	})
}

// A change that another client makes between read and write is not lost.
func TestConflict(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first := newCA(t, 24*time.Hour)
		c := newCluster(t, configuration(nil), secret(toPEM(first)))
		c.race = func() {
			c.race = nil
			var now admissionv1.MutatingWebhookConfiguration
			must.Succeed(t, c.Get(context.Background(), client.ObjectKey{Name: "fpga"}, &now))
			now.Webhooks = append(now.Webhooks, configuration(nil, nil).Webhooks[1])
			must.Succeed(t, c.Update(context.Background(), &now))
		}
		if _, err := c.injector.Reconcile(context.Background(), reconcile.Request{}); err == nil {
			t.Fatal("no error, want a conflict")
		}
		c.reconcile(0, first)
		if c.writes != 2 || c.logs.Len() != 1 {
			t.Errorf("%d writes, log %v", c.writes, c.logs.All())
		}
	})
}
