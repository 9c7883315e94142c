package cluster_test

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"os"
	"path/filepath"
	"testing"

	"b-com.com/accelerator-device-plugin/test/e2e/cluster"
)

// Each step of a rotation uses files that exist, and trusts the credentials of the steps beside it.
func TestCredentials(t *testing.T) {
	dir := t.TempDir()
	if err := cluster.WritePKI(dir); err != nil {
		t.Fatal(err)
	}
	trusted := map[cluster.Credentials]*x509.CertPool{}
	served := map[cluster.Credentials]*x509.Certificate{}
	for _, c := range []cluster.Credentials{cluster.FirstCredentials, cluster.BothCredentials, cluster.NextCredentials} {
		if err := cluster.WriteCredentials(c, dir); err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(filepath.Join(dir, "now-ca.crt"))
		if err != nil {
			t.Fatal(err)
		}
		trusted[c] = x509.NewCertPool()
		trusted[c].AppendCertsFromPEM(text)
		served[c] = certificate(t, filepath.Join(dir, "now-apiserver.crt"))
		if _, err := tls.LoadX509KeyPair(filepath.Join(dir, "now-apiserver.crt"), filepath.Join(dir, "now-apiserver.key")); err != nil {
			t.Error(err)
		}
	}
	for before, pool := range trusted {
		for after, c := range served {
			_, err := c.Verify(x509.VerifyOptions{Roots: pool})
			if want := before > cluster.FirstCredentials || after < cluster.NextCredentials; (err == nil) != want {
				t.Errorf("clients of %d, server of %d: %v, want trusted: %t", before, after, err, want)
			}
		}
	}
}

func certificate(t *testing.T, path string) *x509.Certificate {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	block, _ := pem.Decode(text)
	c, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// Only the mounts of the cluster are unmounted.
func TestOurs(t *testing.T) {
	for path, want := range map[string]bool{
		"/var/lib/adp-e2e":                          true,
		"/var/lib/adp-e2e/run/io.containerd/rootfs": true,
		"/var/lib/adp-e2e-other":                    false,
		"/var/lib/kubelet/pods/uid/volumes/token":   true,
		"/var/lib/kubelets":                         false,
		"/run/netns/cni-0b6f":                       true,
		"/run/netns/mine":                           false,
		"/":                                         false,
		"/var/lib":                                  false,
		cluster.Unescape(`/var/lib/adp-e2e/with\040one`): true,
	} {
		if got := cluster.Ours(path); got != want {
			t.Errorf("%s: %t, want %t", path, got, want)
		}
	}
	if got := cluster.Unescape(`/a\040b\134040`); got != `/a b\040` {
		t.Errorf("%q", got)
	}
}
