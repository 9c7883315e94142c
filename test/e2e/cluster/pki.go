package cluster

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// authority signs a cluster's certificates.
type authority struct {
	dir         string
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
}

// writePKI writes key pairs to dir, as NAME.crt and NAME.key: the ones that [newServing] creates, one for each user in
// [users], and one for the kubelet's server. It also calls newServing for dir/next, whose files
// [Cluster.UseCredentials] uses, and writes both CAs to trust.crt.
func writePKI(dir string) error {
	a, err := newServing(dir)
	if err != nil {
		return err
	}
	for name, subject := range users {
		if err := a.issue(name, subject); err != nil {
			return err
		}
	}
	if err := a.issue("kubelet-serving", pkix.Name{CommonName: NodeName}, nodeIP); err != nil {
		return err
	}
	if _, err := newServing(filepath.Join(dir, "next")); err != nil {
		return err
	}
	return concatenate(dir, "trust.crt", "ca.crt", "next/ca.crt")
}

// newServing writes three key pairs to dir: a CA (ca), the API server's serving certificate (apiserver), and the key
// pair that signs service account tokens (sa.key, sa.pub).
func newServing(dir string) (*authority, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	a, err := newAuthority(dir)
	if err != nil {
		return nil, err
	}
	if err := a.issue("apiserver", pkix.Name{CommonName: "kube-apiserver"}, nodeIP, serviceIP); err != nil {
		return nil, err
	}
	key, err := newKey(filepath.Join(dir, "sa.key"))
	if err != nil {
		return nil, err
	}
	public, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		return nil, err
	}
	return a, writePEM(filepath.Join(dir, "sa.pub"), "PUBLIC KEY", public)
}

// concatenate writes the contents of several files to the file name, one after another. All names are relative to dir.
func concatenate(dir, name string, from ...string) error {
	var all []byte
	for _, file := range from {
		text, err := os.ReadFile(filepath.Join(dir, file))
		if err != nil {
			return err
		}
		all = append(all, text...)
	}
	return os.WriteFile(filepath.Join(dir, name), all, 0o600)
}

// users lists the users that get a kubeconfig, with their certificates' subjects.
var users = map[string]pkix.Name{
	"admin":                   {CommonName: "admin", Organization: []string{"system:masters"}},
	"kube-controller-manager": {CommonName: "system:kube-controller-manager"},
	"kube-scheduler":          {CommonName: "system:kube-scheduler"},
	"kubelet":                 {CommonName: "system:node:" + NodeName, Organization: []string{"system:nodes"}},
}

func newAuthority(dir string) (*authority, error) {
	key, err := newKey(filepath.Join(dir, "ca.key"))
	if err != nil {
		return nil, err
	}
	a := &authority{dir: dir, key: key}
	a.certificate = unsigned(pkix.Name{CommonName: "e2e"})
	a.certificate.IsCA, a.certificate.BasicConstraintsValid = true, true
	a.certificate.KeyUsage = x509.KeyUsageCertSign
	return a, a.sign("ca", a.certificate, key.Public())
}

// issue issues a certificate that can be used by both servers and clients.
func (a *authority) issue(name string, subject pkix.Name, addresses ...string) error {
	key, err := newKey(filepath.Join(a.dir, name+".key"))
	if err != nil {
		return err
	}
	c := unsigned(subject)
	c.KeyUsage = x509.KeyUsageDigitalSignature
	c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	for _, address := range addresses {
		c.IPAddresses = append(c.IPAddresses, net.ParseIP(address))
	}
	return a.sign(name, c, key.Public())
}

func (a *authority) sign(name string, c *x509.Certificate, public crypto.PublicKey) error {
	der, err := x509.CreateCertificate(rand.Reader, c, a.certificate, public, a.key)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return writePEM(filepath.Join(a.dir, name+".crt"), "CERTIFICATE", der)
}

// unsigned returns a certificate that isn't signed yet. It is valid for a month, because a cluster may be kept running
// for that long.
func unsigned(subject pkix.Name) *x509.Certificate {
	now := time.Now()
	return &x509.Certificate{
		SerialNumber: big.NewInt(now.UnixNano()), Subject: subject,
		NotBefore: now.Add(-time.Hour), NotAfter: now.AddDate(0, 1, 0),
	}
}

func newKey(path string) (*ecdsa.PrivateKey, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, err
	}
	return key, writePEM(path, "EC PRIVATE KEY", der)
}

func writePEM(path, kind string, der []byte) error {
	return os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600)
}
