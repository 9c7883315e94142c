package certificate_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"b-com.com/accelerator-device-plugin/operator/certificate"
	"b-com.com/accelerator-device-plugin/test/compare"
	"b-com.com/accelerator-device-plugin/test/must"
)

var secretName = types.NamespacedName{Namespace: "fpga", Name: "accelerator-operator-tls"}

func TestChoose(t *testing.T) {
	now := time.Now()
	leaf := func(age, rest time.Duration) *tls.Certificate {
		return &tls.Certificate{Leaf: &x509.Certificate{NotBefore: now.Add(-age), NotAfter: now.Add(rest)}}
	}
	for _, tc := range []struct {
		name             string
		previous, newest *tls.Certificate
		wantNewest       bool
	}{
		{"first", nil, leaf(0, time.Hour), true},
		{"new", leaf(time.Hour, time.Hour), leaf(0, time.Hour), false},
		{"59 s", leaf(time.Hour, time.Hour), leaf(59*time.Second, time.Hour), false},
		{"a minute", leaf(time.Hour, time.Hour), leaf(time.Minute, time.Hour), true},
		{"previous has expired", leaf(time.Hour, -time.Second), leaf(time.Second, time.Hour), true},
		{"both are new", leaf(time.Second, time.Hour), leaf(0, time.Hour), false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			compare.Equal(t, "newest", tc.wantNewest, certificate.Choose(tc.previous, tc.newest, now) == tc.newest)
		})
	}
}

// source is a running Source, in a synctest bubble.
type source struct {
	*certificate.Source
	*authority
	t    *testing.T
	logs *observer.ObservedLogs
}

func start(t *testing.T, first ca, lasts time.Duration) *source {
	t.Helper()
	core, logs := observer.New(zap.InfoLevel)
	a := &authority{t: t, lasts: lasts, current: first}
	s := &source{certificate.NewSourceSigned(a, secretName, service, zap.New(core)), a, t, logs}
	if c, err := s.GetCertificate(nil); err == nil {
		t.Fatalf("certificate %v before the start", c)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- s.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		compare.NoError(t, "Run", <-done)
	})
	synctest.Wait()
	return s
}

// serves sleeps, and checks that the CA has signed the certificate that is then served.
func (s *source) serves(after time.Duration, want ca) {
	s.t.Helper()
	time.Sleep(after)
	synctest.Wait()
	c := must.Value(s.GetCertificate(nil))(s.t)
	if err := c.Leaf.CheckSignatureFrom(want.Certificate); err != nil || time.Now().After(c.Leaf.NotAfter) {
		s.t.Errorf("%v: certificate valid until %v: %v", time.Now(), c.Leaf.NotAfter, err)
	}
}

// A new CA is served after a minute.
func TestOverlap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first, second, third := newCA(t, 24*time.Hour), newCA(t, 24*time.Hour), newCA(t, 24*time.Hour)
		s := start(t, first, 12*time.Hour)
		s.serves(0, first)
		s.change(second)
		s.serves(0, first)
		s.serves(59*time.Second, first)
		s.serves(time.Second, second)

		// Within the minute after a change, the previous certificate is served, which API servers trust.
		s.change(third)
		s.serves(30*time.Second, second)
		s.change(first)
		s.serves(59*time.Second, second)
		s.serves(time.Second, first)

		line := s.logs.All()[0]
		if m := line.ContextMap(); s.logs.Len() != 4 || m["event"] != "certificate.made" || m["object"] != "Secret/fpga/accelerator-operator-tls" || m["expires"] != "2000-01-01T12:00:00Z" {
			t.Errorf("%d lines, the first %v", s.logs.Len(), m)
		}
	})
}

// A certificate is renewed when two thirds of its time are over, and is never served expired.
func TestRenewal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first := newCA(t, 24*time.Hour)
		s := start(t, first, 90*time.Second)
		for range 100 {
			s.serves(7*time.Second, first)
		}
		compare.Equal(t, "certificates in 700 s", 12, s.logs.Len())
	})
}

func TestTrusted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ours, other := newCA(t, 24*time.Hour), newCA(t, 24*time.Hour)
		s := start(t, ours, time.Hour)
		for _, tc := range []struct {
			name    string
			bundles [][]byte
			want    string // "" is trusted
		}{
			{"one", [][]byte{toPEM(ours)}, ""},
			{"two", [][]byte{toPEM(ours), toPEM(other, ours)}, ""},
			{"none", [][]byte{toPEM(ours), nil}, "MutatingWebhookConfiguration fpga, webhook w1: caBundle: x509: certificate signed by unknown authority"},
			{"other", [][]byte{toPEM(other), toPEM(ours)}, "webhook w0: caBundle: x509: certificate signed by unknown authority"},
			{"garbage", [][]byte{[]byte("garbage")}, "webhook w0: caBundle: x509: "},
		} {
			c := admissionv1.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "fpga"}}
			for i, b := range tc.bundles {
				c.Webhooks = append(c.Webhooks, admissionv1.MutatingWebhook{Name: []string{"w0", "w1"}[i], ClientConfig: admissionv1.WebhookClientConfig{CABundle: b}})
			}
			compare.Outcome(t, tc.name, tc.want, s.Trusted(&c))
		}
		compare.Error(t, "without a certificate", "", certificate.NewSourceSigned(&authority{}, secretName, service, zap.NewNop()).Trusted(&admissionv1.MutatingWebhookConfiguration{}))
	})
}
