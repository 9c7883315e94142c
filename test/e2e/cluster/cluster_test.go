package cluster_test

import (
	"archive/tar"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"b-com.com/accelerator-device-plugin/test/e2e/cluster"
)

// All certificates are signed by the authority, and valid for clients and servers.
func TestPKI(t *testing.T) {
	dir := t.TempDir()
	if err := cluster.WritePKI(dir); err != nil {
		t.Fatal(err)
	}
	authority := x509.NewCertPool()
	authority.AddCert(certificate(t, filepath.Join(dir, "ca.crt")))
	subjects := map[string]string{}
	for _, name := range []string{"admin", "apiserver", "kube-controller-manager", "kube-scheduler", "kubelet", "kubelet-serving"} {
		c := certificate(t, filepath.Join(dir, name+".crt"))
		for _, usage := range []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth} {
			if _, err := c.Verify(x509.VerifyOptions{Roots: authority, KeyUsages: []x509.ExtKeyUsage{usage}}); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		subjects[name] = strings.Join(append(c.Subject.Organization, c.Subject.CommonName), " ")
		if info, err := os.Stat(filepath.Join(dir, name+".key")); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("key of %s: found %v, error %v, want mode 0600", name, info, err)
		}
	}
	want := map[string]string{
		"admin": "system:masters admin", "apiserver": "kube-apiserver",
		"kube-controller-manager": "system:kube-controller-manager", "kube-scheduler": "system:kube-scheduler",
		"kubelet": "system:nodes system:node:e2e", "kubelet-serving": "e2e",
	}
	if diff := cmp.Diff(want, subjects); diff != "" {
		t.Errorf("subjects (-want +got):\n%s", diff)
	}
	if err := certificate(t, filepath.Join(dir, "apiserver.crt")).VerifyHostname("198.18.1.1"); err != nil {
		t.Error(err)
	}
}

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

// Each part has arguments.
func TestArguments(t *testing.T) {
	for _, name := range []string{"etcd", "containerd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelet"} {
		arguments := cluster.Arguments(name)
		if len(arguments) == 0 {
			t.Errorf("%s: found no arguments, want some", name)
		}
		for _, argument := range arguments {
			if !strings.HasPrefix(argument, "--") || !strings.Contains(argument, "=") && argument != "--unsafe-no-fsync" {
				t.Errorf("%s: found the argument %q, want --NAME=VALUE", name, argument)
			}
		}
	}
}

// The archive has the form of docker save: a manifest with the names of config and layer, and both.
func TestWriteImages(t *testing.T) {
	dir := t.TempDir()
	binary, archive := filepath.Join(dir, "binary"), filepath.Join(dir, "images.tar")
	if err := os.WriteFile(binary, []byte("program"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := cluster.WriteImages(archive, binary); err != nil {
		t.Fatal(err)
	}
	file, err := os.Open(archive)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	files := contents(t, file)
	var manifest []struct {
		Config           string
		RepoTags, Layers []string
	}
	if err := json.Unmarshal([]byte(files["manifest.json"]), &manifest); err != nil {
		t.Fatal(err)
	}
	if len(manifest) != 1 || files[manifest[0].Config] == "" || len(manifest[0].Layers) != 1 {
		t.Fatalf("manifest: %s", files["manifest.json"])
	}
	if diff := cmp.Diff([]string{cluster.PauseImage, cluster.WorkloadImage}, manifest[0].RepoTags); diff != "" {
		t.Errorf("tags (-want +got):\n%s", diff)
	}
	layer := contents(t, strings.NewReader(files[manifest[0].Layers[0]]))
	if layer["workload"] != "program" {
		t.Errorf("layer: %v", layer)
	}
}

// contents returns the files of an archive.
func contents(t *testing.T, archive io.Reader) map[string]string {
	t.Helper()
	files := map[string]string{}
	r := tar.NewReader(archive)
	for {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		files[header.Name] = string(text)
	}
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

func TestLastLines(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	for _, tt := range []struct{ name, text, want string }{
		{"empty", "", ""},
		{"fewer", "a\n", "a\n"},
		{"more", "a\nb\nc\n", "b\nc\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if err := os.WriteFile(path, []byte(tt.text), 0o600); err != nil {
				t.Fatal(err)
			}
			if got := string(cluster.LastLines(path, 2)); got != tt.want {
				t.Errorf("%q, want %q", got, tt.want)
			}
		})
	}
}
