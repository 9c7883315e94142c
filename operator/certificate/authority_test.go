package certificate_test

import (
	"context"
	"crypto/ed25519"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"sync"
	"testing"
	"time"

	"b-com.com/accelerator-device-plugin/test/must"
)

const service = "accelerator-operator.fpga.svc"

// ca is a CA with its key.
type ca struct {
	*x509.Certificate
	key ed25519.PrivateKey
}

// newCA returns a CA that is valid from now.
func newCA(t testing.TB, lasts time.Duration) ca {
	t.Helper()
	_, key, err := ed25519.GenerateKey(nil)
	must.Succeed(t, err)
	return makeCA(t, key, time.Now(), lasts)
}

// makeCA returns the same CA for the same arguments.
func makeCA(t testing.TB, key ed25519.PrivateKey, from time.Time, lasts time.Duration) ca {
	t.Helper()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "accelerator-operator"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: from, NotAfter: from.Add(lasts), KeyUsage: x509.KeyUsageCertSign,
	}
	return ca{sign(t, template, template, key.Public(), key), key}
}

func sign(t testing.TB, template, parent *x509.Certificate, public any, key ed25519.PrivateKey) *x509.Certificate {
	t.Helper()
	der := must.Value(x509.CreateCertificate(nil, template, parent, public, key))(t)
	c := must.Value(x509.ParseCertificate(der))(t)
	return c
}

func toPEM(all ...ca) []byte {
	var text []byte
	for _, c := range all {
		text = append(text, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Raw})...)
	}
	return text
}

// authority signs with a CA that the test changes.
type authority struct {
	t     testing.TB
	lasts time.Duration // of leaves

	mu      sync.Mutex
	current ca
	news    chan<- struct{}
}

func (a *authority) Run(ctx context.Context) error {
	<-ctx.Done()
	return nil
}

func (a *authority) WatchRotation(ch chan<- struct{})     { a.news = ch }
func (a *authority) StopWatchingRotation(chan<- struct{}) {}

func (a *authority) Sign(template *x509.Certificate) (*x509.Certificate, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	template.SerialNumber = big.NewInt(2)
	template.NotBefore, template.NotAfter = time.Now(), time.Now().Add(a.lasts)
	return sign(a.t, template, a.current.Certificate, template.PublicKey, a.current.key), nil
}

// change replaces the CA.
func (a *authority) change(c ca) {
	a.mu.Lock()
	a.current = c
	a.mu.Unlock()
	a.news <- struct{}{}
}
