package apiserver_test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"

	"b-com.com/accelerator-device-plugin/daemon/apiserver"
	"b-com.com/accelerator-device-plugin/test/compare"
	"b-com.com/accelerator-device-plugin/test/must"
)

// certificate returns a new certificate and its key as PEM.
func certificate(t testing.TB) (cert, key string) {
	t.Helper()
	private := must.Value(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotAfter: time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC),
		IsCA: true, BasicConstraintsValid: true, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der := must.Value(x509.CreateCertificate(rand.Reader, template, template, private.Public(), private))(t)
	pkcs8 := must.Value(x509.MarshalPKCS8PrivateKey(private))(t)
	text := func(kind string, der []byte) string {
		var b bytes.Buffer
		must.Succeed(t, pem.Encode(&b, &pem.Block{Type: kind, Bytes: der}))
		return b.String()
	}
	return text("CERTIFICATE", der), text("PRIVATE KEY", pkcs8)
}

// kubeconfig returns a file with one context whose cluster and user have these fields.
func kubeconfig(cluster, user string) string {
	return "current-context: c\ncontexts: [{name: c, context: {cluster: k, user: u}}]\nclusters:\n- name: k\n  cluster: {" + cluster +
		"}\nusers:\n- name: other\n- name: u\n  user: {" + user + "}\n"
}

func kubeconfigFile(t testing.TB, server string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "kubeconfig")
	must.Succeed(t, os.WriteFile(path, []byte(kubeconfig("server: "+server, "token: t")), 0o600))
	return path
}

func TestKubeconfig(t *testing.T) {
	cert, key := certificate(t)
	b64 := func(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) }
	const server = "server: 'https://10.0.0.1:6443/k8s/c-1', "
	for _, tc := range []struct {
		name string
		text string
		want string // substring of the error; "": none
	}{
		{"token", kubeconfig(server, "token: t"), ""},
		{"token file", kubeconfig(server, "tokenFile: token"), ""},
		{"token file before token", kubeconfig(server, "token: other, tokenFile: token"), ""},
		{"CA file", kubeconfig(server+"certificate-authority: ca.crt", "token: t"), ""},
		{"CA data", kubeconfig(server+"certificate-authority-data: "+b64(cert), ""), ""},
		{"client certificate files", kubeconfig(server, "client-certificate: ca.crt, client-key: key"), ""},
		{"client certificate data", kubeconfig(server, "client-certificate-data: "+b64(cert)+", client-key-data: "+b64(key)), ""},
		{"insecure", kubeconfig(server+"insecure-skip-tls-verify: true", ""), ""},
		{"kubectl proxy", kubeconfig("server: 'http://127.0.0.1:8001'", ""), ""},

		{"empty", "", `current-context: found ""`},
		{"not YAML", "a: [", "not a kubeconfig"},
		{"a list", "- a", "not a kubeconfig"},
		{"no context", strings.Replace(kubeconfig(server, ""), "current-context: c", "current-context: d", 1), `current-context: found "d", want the name of one of contexts`},
		{"no cluster", strings.Replace(kubeconfig(server, ""), "cluster: k", "cluster: l", 1), `context "c": cluster: found "l", want the name of one of clusters`},
		{"no user", strings.Replace(kubeconfig(server, ""), "user: u}", "user: v}", 1), `context "c": user: found "v", want the name of one of users`},
		{"no server", kubeconfig("", ""), `server: found "", want https://HOST:PORT`},
		{"server without scheme", kubeconfig("server: '10.0.0.1:6443'", ""), "want https://HOST:PORT"},
		{"server with another scheme", kubeconfig("server: 'ftp://a'", ""), "want https://HOST:PORT"},
		{"server with a password", kubeconfig("server: 'https://a:b@c'", ""), "want https://HOST:PORT"},
		{"exec", kubeconfig(server, "exec: {command: aws}"), "user: exec: not supported, want token"},
		{"auth provider", kubeconfig(server, "auth-provider: {name: gcp}"), "auth-provider: not supported, want"},
		{"user name", kubeconfig(server, "username: a"), "user: username: not supported, want"},
		{"impersonation", kubeconfig(server, "as: a"), "user: as: not supported, want"},
		{"proxy", kubeconfig(server+"proxy-url: 'http://p'", ""), "proxy-url: not supported, want"},
		{"token over http", kubeconfig("server: 'http://a'", "token: t"), "with a token or certificate, want https"},
		{"missing token file", kubeconfig(server, "tokenFile: nothing"), "no such file"},
		{"empty token file", kubeconfig(server, "tokenFile: empty"), "read empty token"},
		{"CA that is not base64", kubeconfig(server+"certificate-authority-data: '%'", ""), "certificate-authority-data: illegal base64"},
		{"invalid CA", kubeconfig(server+"certificate-authority: token", ""), "unable to parse bytes as PEM block"},
		{"empty CA", kubeconfig(server+"certificate-authority: blank", ""), "blank: found an empty file, want"},
		{"CA and insecure", kubeconfig(server+"insecure-skip-tls-verify: true, certificate-authority: ca.crt", ""), "with the insecure flag is not allowed"},
		{"missing CA", kubeconfig(server+"certificate-authority: nothing", ""), "nothing: no such file"},
		{"certificate without key", kubeconfig(server, "client-certificate: ca.crt"), "want both"},
		{"invalid key", kubeconfig(server, "client-certificate: ca.crt, client-key: token"), "client certificate: tls:"},
		{"invalid key data", kubeconfig(server, "client-certificate-data: "+b64(cert)+", client-key-data: "+b64("t")), "client certificate: tls:"},
	} {
		dir := t.TempDir()
		for file, text := range map[string]string{"kubeconfig": tc.text, "ca.crt": cert, "key": key, "token": "t\n", "empty": "\n", "blank": ""} {
			must.Succeed(t, os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600))
		}
		_, err := apiserver.Open(apiserver.Config{Kubeconfig: filepath.Join(dir, "kubeconfig")}, zap.NewNop())
		compare.Outcome(t, tc.name, tc.want, err)
	}
}

func TestServiceAccount(t *testing.T) {
	cert, _ := certificate(t)
	full := map[string]string{"ca.crt": cert, "token": "t"}
	for _, tc := range []struct {
		name    string
		address string
		files   map[string]string
		want    string // substring of the error; "": none
	}{
		{"complete", "10.0.0.1:443", full, ""},
		{"IPv6", "[fd00::1]:443", full, ""},
		{"no variable", ":443", full, "variable KUBERNETES_SERVICE_HOST: found none"},
		{"no port", "10.0.0.1:", full, "variable KUBERNETES_SERVICE_PORT: found none"},
		{"no token", "10.0.0.1:443", map[string]string{"ca.crt": cert}, "token: no such file"},
		{"no CA", "10.0.0.1:443", map[string]string{"token": "t"}, "ca.crt: no such file"},
		{"invalid CA", "10.0.0.1:443", map[string]string{"token": "t", "ca.crt": "-"}, "unable to parse bytes as PEM block"},
	} {
		dir := t.TempDir()
		for file, text := range tc.files {
			must.Succeed(t, os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600))
		}
		_, err := apiserver.Open(apiserver.Config{ServiceAccount: dir, LookupEnv: inPod(t, tc.address)}, zap.NewNop())
		compare.Outcome(t, tc.name, tc.want, err)
	}
}
