package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"

	"b-com.com/accelerator-device-plugin/test/compare"
	"b-com.com/accelerator-device-plugin/test/must"
)

// newCert returns a certificate that is its own CA, and its PEM.
func newCert(t *testing.T) (tls.Certificate, []byte) {
	t.Helper()
	key := must.Value(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"}, NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
	}
	raw := must.Value(x509.CreateCertificate(rand.Reader, template, template, key.Public(), key))(t)
	return tls.Certificate{Certificate: [][]byte{raw}, PrivateKey: key}, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: raw})
}

// With --client-ca, only clients with a certificate of the CA are answered.
func TestClientCA(t *testing.T) {
	ours, caPEM := newCert(t)
	foreign, _ := newCert(t)
	file := filepath.Join(t.TempDir(), "ca.crt")
	must.Succeed(t, os.WriteFile(file, caPEM, 0o600))
	for _, tc := range []struct {
		name     string
		clientCA string
		client   []tls.Certificate
		want     string // of the error; "" is an answer
	}{
		{"no CA", "", nil, ""},
		{"certificate of the CA", file, []tls.Certificate{ours}, ""},
		{"no certificate", file, nil, "certificate required"},
		{"another certificate", file, []tls.Certificate{foreign}, "certificate"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			free := must.Value(net.Listen("tcp", "127.0.0.1:0"))(t)
			port := free.Addr().(*net.TCPAddr).Port
			free.Close()
			s := &webhookServer{
				port: port, clientCA: tc.clientCA, log: zap.NewNop(),
				handler:     http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "answer") }),
				certificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return &ours, nil },
			}
			compare.Error(t, "before the start", "", s.serves())
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error)
			go func() { ended <- s.Start(ctx) }()
			tick := time.NewTicker(time.Millisecond)
			defer tick.Stop()
			for s.serves() != nil {
				<-tick.C
			}
			c := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true, Certificates: tc.client}, ForceAttemptHTTP2: true}
			got, err := (&http.Client{Transport: c}).Post(fmt.Sprintf("https://127.0.0.1:%d%s", port, path), "application/json", strings.NewReader("{}"))
			if err == nil {
				text, _ := io.ReadAll(got.Body)
				got.Body.Close()
				if string(text) != "answer" || got.ProtoMajor != 1 {
					t.Errorf("%s, %s, want the answer over HTTP/1.1", got.Proto, text)
				}
			}
			compare.Outcome(t, "error", tc.want, err)
			c.CloseIdleConnections()
			cancel()
			compare.NoError(t, "Run", <-ended)
			compare.Error(t, "after the end", "", s.serves())
		})
	}
}

func TestBadClientCA(t *testing.T) {
	dir := t.TempDir()
	empty := filepath.Join(dir, "empty.crt")
	must.Succeed(t, os.WriteFile(empty, []byte("none"), 0o600))
	for file, want := range map[string]string{filepath.Join(dir, "missing"): "--client-ca: open ", empty: "empty.crt: found no certificate, want those of CAs in PEM"} {
		compare.Error(t, "Start", want, (&webhookServer{clientCA: file}).Start(t.Context()))
	}
}
