package certificate

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"sync"
	"time"

	servertls "github.com/cert-manager/cert-manager/pkg/server/tls"
	"github.com/cert-manager/cert-manager/pkg/server/tls/authority"
	"github.com/go-logr/logr"
	"go.uber.org/zap"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"

	"b-com.com/accelerator-device-plugin/internal/logevent"
)

// leafOverlap is how long the previous certificate is still served after a new one has been issued.
const leafOverlap = time.Minute

// retryInterval is the time between attempts to issue a certificate when there is no CA.
const retryInterval = 200 * time.Millisecond

// Source issues and renews the certificate that a replica serves.
type Source struct {
	source *servertls.DynamicSource
	object string // the Secret, for the log
	log    *zap.Logger

	mu       sync.Mutex
	previous *tls.Certificate // what was being served when the newest certificate was issued, or nil
}

// NewSource returns a source of certificates for a DNS name. Their CA is stored in a Secret, which is created if it
// doesn't exist.
func NewSource(config *rest.Config, secret types.NamespacedName, dnsName string, log *zap.Logger) *Source {
	return newSource(&authority.DynamicAuthority{
		RESTConfig: config, SecretNamespace: secret.Namespace, SecretName: secret.Name, CommonName: "accelerator-operator",
	}, secret, dnsName, log)
}

// newSource returns a source whose certificates are signed by the authority a.
func newSource(a servertls.Authority, secret types.NamespacedName, dnsName string, log *zap.Logger) *Source {
	s := &Source{object: "Secret/" + secret.String(), log: log}
	s.source = &servertls.DynamicSource{DNSNames: []string{dnsName}, Authority: signer{a, s}, RetryInterval: retryInterval}
	return s
}

// Start issues and renews certificates until ctx is done. It implements [manager.Runnable].
func (s *Source) Start(ctx context.Context) error {
	// The library logs every step and every attempt, so log its lines at debug level.
	return s.source.Start(logr.NewContext(ctx, ctrl.Log.V(1)))
}

// NeedLeaderElection implements [manager.LeaderElectionRunnable]. It returns false, because every replica serves.
func (s *Source) NeedLeaderElection() bool { return false }

// signer signs certificates. Each time, it records the certificate that was being served until then.
type signer struct {
	servertls.Authority
	*Source
}

// Sign implements [servertls.Authority].
func (s signer) Sign(template *x509.Certificate) (*x509.Certificate, error) {
	served, _ := s.GetCertificate(nil)
	leaf, err := s.Authority.Sign(template)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	s.previous = served
	s.mu.Unlock()
	s.log.Info("certificate made", logevent.CertificateMade, logevent.Object(s.object), logevent.Expires(leaf.NotAfter))
	return leaf, nil
}

// GetCertificate returns the certificate to serve, or an error if there is none yet. It is suitable as the
// GetCertificate field of a [tls.Config].
func (s *Source) GetCertificate(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	newest, err := s.source.GetCertificate(hello)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return choose(s.previous, newest, time.Now()), nil
}

// choose returns the certificate to serve: previous until leafOverlap after newest was issued, if it is still valid,
// and then newest. previous may be nil.
func choose(previous, newest *tls.Certificate, now time.Time) *tls.Certificate {
	if previous == nil || now.Sub(newest.Leaf.NotBefore) >= leafOverlap || now.After(previous.Leaf.NotAfter) {
		return newest
	}
	return previous
}

// Trusted returns an error unless every webhook's caBundle in the configuration contains the CA that signed the served
// certificate.
func (s *Source) Trusted(configuration *admissionv1.MutatingWebhookConfiguration) error {
	served, err := s.GetCertificate(nil)
	if err != nil {
		return err
	}
	for i := range configuration.Webhooks {
		w := &configuration.Webhooks[i]
		roots := x509.NewCertPool()
		roots.AppendCertsFromPEM(w.ClientConfig.CABundle)
		if _, err := served.Leaf.Verify(x509.VerifyOptions{DNSName: s.source.DNSNames[0], Roots: roots}); err != nil {
			return fmt.Errorf("MutatingWebhookConfiguration %s, webhook %s: caBundle: %w", configuration.Name, w.Name, err)
		}
	}
	return nil
}
