package transfer_test

import (
	"crypto/ed25519"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"b-com.com/accelerator-device-plugin/registry/signature"
	"b-com.com/accelerator-device-plugin/registry/transfer"
	"b-com.com/accelerator-device-plugin/test/compare"
	"b-com.com/accelerator-device-plugin/test/must"
)

// signer is a private key, with its public key in PEM.
type signer struct {
	ed25519.PrivateKey
	pem []byte
}

func newSigner(t *testing.T) signer {
	t.Helper()
	public, private, err := ed25519.GenerateKey(nil)
	must.Succeed(t, err)
	return signer{private, pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: must.Value(x509.MarshalPKIXPublicKey(public))(t)})}
}

// sign adds a layer with a signature of the manifest. Before it, it adds n layers with invalid signatures.
func (r *registry) sign(t *testing.T, s signer, n int) *ocispec.Manifest {
	t.Helper()
	payload := fmt.Appendf(nil, `{"critical": {"image": {"docker-manifest-digest": %q}, "type": "cosign container image signature"}}`, digest.FromBytes(r.manifest))
	layer := ocispec.Descriptor{MediaType: signature.Simple, Digest: digest.FromBytes(payload), Size: int64(len(payload)), Annotations: map[string]string{}}
	m := &ocispec.Manifest{MediaType: ocispec.MediaTypeImageManifest, Config: ocispec.DescriptorEmptyJSON, Layers: []ocispec.Descriptor{}}
	for range n {
		m.Layers = append(m.Layers, layer)
	}
	layer.Annotations = map[string]string{signature.Annotation: base64.StdEncoding.EncodeToString(ed25519.Sign(s.PrivateKey, payload))}
	m.Layers = append(m.Layers, layer)
	r.blobs = map[digest.Digest][]byte{layer.Digest: payload}
	r.signature = must.Value(json.Marshal(m))(t)
	return m
}

// bundle adds a referrer with a signature, n times.
func (r *registry) bundle(t *testing.T, s signer, n int) {
	t.Helper()
	const payloadType = "application/vnd.in-toto+json"
	statement := fmt.Sprintf(`{"subject": [{"digest": {"sha256": %q}}], "predicateType": "https://sigstore.dev/cosign/sign/v1"}`, digest.FromBytes(r.manifest).Encoded())
	message := fmt.Appendf(nil, "DSSEv1 %d %s %d %s", len(payloadType), payloadType, len(statement), statement)
	bundle := fmt.Appendf(nil, `{"dsseEnvelope": {"payload": %q, "payloadType": %q, "signatures": [{"sig": %q}]}}`,
		base64.StdEncoding.EncodeToString([]byte(statement)), payloadType, base64.StdEncoding.EncodeToString(ed25519.Sign(s.PrivateKey, message)))
	layer := ocispec.Descriptor{MediaType: signature.Bundle, Digest: digest.FromBytes(bundle), Size: int64(len(bundle))}
	manifest := must.Value(json.Marshal(ocispec.Manifest{MediaType: ocispec.MediaTypeImageManifest, ArtifactType: signature.Bundle,
		Config: ocispec.DescriptorEmptyJSON, Layers: []ocispec.Descriptor{layer}}))(t)
	referrer := ocispec.Descriptor{MediaType: ocispec.MediaTypeImageManifest, ArtifactType: signature.Bundle, Digest: digest.FromBytes(manifest), Size: int64(len(manifest))}
	r.blobs = map[digest.Digest][]byte{layer.Digest: bundle, referrer.Digest: manifest}
	r.referrers = must.Value(json.Marshal(ocispec.Index{MediaType: ocispec.MediaTypeImageIndex, Manifests: slices.Repeat([]ocispec.Descriptor{referrer}, n)}))(t)
}

// A pull that requires a signature installs nothing without one, and does not even request the file.
func TestSignature(t *testing.T) {
	ours, theirs := newSigner(t), newSigner(t)
	const want = "found a signature by another key, or a changed one, want one by a key in "
	for _, test := range []struct {
		name, policy string // the store's file; "": none
		key          []byte // nil: none
		sign         func(r *registry)
		want         string // an error; "": none
	}{
		{"nobody asks", "", nil, func(*registry) {}, ""},
		{"no signature", "", ours.pem, func(*registry) {}, "found none, want one by a key in --key"},
		{"no signature, policy", string(ours.pem), nil, func(*registry) {}, "found none, want one by a key in STORE/signers.pem"},
		{"ours", "", ours.pem, func(r *registry) { r.sign(t, ours, 0) }, ""},
		{"ours, after others", "", ours.pem, func(r *registry) { r.sign(t, ours, 3) }, ""},
		{"ours, policy", string(theirs.pem) + string(ours.pem), nil, func(r *registry) { r.sign(t, ours, 0) }, ""},
		{"theirs", "", ours.pem, func(r *registry) { r.sign(t, theirs, 0) }, want + "--key"},
		{"a key does not replace the policy", string(ours.pem), theirs.pem, func(r *registry) { r.sign(t, theirs, 0) }, want + "STORE/signers.pem"},
		{"a policy does not replace the key", string(theirs.pem), ours.pem, func(r *registry) { r.sign(t, theirs, 0) }, want + "--key"},
		{"a policy that is empty", "\n", nil, func(r *registry) { r.sign(t, ours, 0) }, "STORE/signers.pem: found no public key"},
		{"of another manifest", "", ours.pem, func(r *registry) {
			r.sign(t, ours, 0)
			r.manifest = append(r.manifest, ' ')
		}, "found a signature (cosign container image signature) of sha256:"},
		{"very many", "", ours.pem, func(r *registry) { r.sign(t, ours, 20) }, "found more than 20, want fewer"},
		{"too large", "", ours.pem, func(r *registry) {
			m := r.sign(t, ours, 0)
			m.Layers[0].Size = 64<<10 + 1
			r.signature = must.Value(json.Marshal(m))(t)
		}, "found 65537 bytes, want at most 65536"},
		{"our bundle", "", ours.pem, func(r *registry) { r.bundle(t, ours, 1) }, ""},
		{"their bundle", "", ours.pem, func(r *registry) { r.bundle(t, theirs, 1) }, want + "--key"},
		{"very many bundles", "", ours.pem, func(r *registry) { r.bundle(t, ours, 100) }, "found more than 20, want fewer"},
		{"no digest", "", ours.pem, func(r *registry) {
			m := r.sign(t, ours, 0)
			m.Layers[0].Digest = "../../x"
			r.signature = must.Value(json.Marshal(m))(t)
		}, `found digest "../../x"`},
		{"another payload", "", ours.pem, func(r *registry) {
			m := r.sign(t, ours, 0)
			r.blobs[m.Layers[0].Digest] = make([]byte, m.Layers[0].Size)
		}, "mismatched digest"},
		{"no payload", "", ours.pem, func(r *registry) {
			r.sign(t, ours, 0)
			r.serve = blobs(http.NotFound)
		}, signature.Simple + ": found none with digest sha256:"},
		{"no JSON", "", ours.pem, func(r *registry) { r.signature = []byte("[") }, "manifest of a signature: "},
	} {
		t.Run(test.name, func(t *testing.T) {
			reg := newRegistry(t)
			test.sign(reg)
			reg.run(t, false, func(t *testing.T, r *rig) {
				if test.policy != "" {
					must.Succeed(t, os.WriteFile(filepath.Join(r.store, "signers.pem"), []byte(test.policy), 0o644))
				}
				var o transfer.Options
				if test.key != nil {
					o.Keys = must.Value(signature.ParseKeys(test.key))(t)
				}
				_, err := r.pullWith(t.Context(), reference, o)
				if err != nil {
					err = errors.New(strings.ReplaceAll(err.Error(), r.store, "STORE"))
				}
				compare.Outcome(t, "pull", test.want, err)
				files := r.files(t)
				delete(files, "signers.pem")
				compare.Equal(t, "installed", test.want == "", files[installed] != "")
				compare.Equal(t, "files", map[bool]int{true: 1, false: 0}[test.want == ""], len(files))
			})
		})
	}
}

// The signatures in testdata were made by cosign 3.1.3, with a key from cosign generate-key-pair, in a registry to
// which accelerator-fpga had pushed. One was made with cosign sign --key cosign.key --tlog-upload=false
// --use-signing-config=false, and is a bundle. The other one was made with --new-bundle-format=false in addition.
func TestCosign(t *testing.T) {
	const dir = "testdata/cosign"
	key := must.Value(signature.ParseKeys(must.Value(os.ReadFile(dir + "/cosign.pub"))(t)))(t)
	other := must.Value(signature.ParseKeys(newSigner(t).pem))(t)
	for _, test := range []struct {
		name, hidden string // pattern of the tags that the registry does not have
		keys         signature.Keys
		want         string
	}{
		{"both", "-", key, ""},
		{"simple signing", "sha256-????????????????????????????????????????????????????????????????", key, ""},
		{"bundle", "*.sig", key, ""},
		{"none", "sha256-*", key, "found none"},
		{"another key", "-", other, "by another key"},
		{"another key, simple signing", "sha256-????????????????????????????????????????????????????????????????", other, "by another key"},
	} {
		reg := newRegistry(t)
		reg.serve = func(w http.ResponseWriter, req *http.Request) bool {
			name := path.Base(req.URL.Path)
			if hidden, _ := path.Match(test.hidden, name); hidden {
				http.NotFound(w, req)
				return true
			}
			if tag, err := os.ReadFile(dir + "/tags/" + name); err == nil {
				name = string(tag)
			}
			text, err := os.ReadFile(dir + "/blobs/" + strings.TrimPrefix(name, "sha256:"))
			var m struct{ MediaType string }
			switch {
			case err != nil || strings.Contains(req.URL.Path, "/referrers/"): // as CNCF's registry
				http.NotFound(w, req)
			case strings.Contains(req.URL.Path, "/manifests/"):
				must.Succeed(t, json.Unmarshal(text, &m))
				w.Header().Set("Content-Type", m.MediaType)
				fallthrough
			default:
				w.Write(text)
			}
			return true
		}
		reg.run(t, false, func(t *testing.T, r *rig) {
			_, err := r.pullWith(t.Context(), reference, transfer.Options{Keys: test.keys})
			compare.Outcome(t, test.name, test.want, err)
			compare.Equal(t, test.name+": installed", test.want == "", r.files(t)[installed] != "")
		})
	}
}

// Whoever can write to the file with the keys could choose the signers.
func TestSignersRefused(t *testing.T) {
	ours := newSigner(t)
	reg := newRegistry(t)
	reg.sign(t, ours, 0)
	reg.run(t, false, func(t *testing.T, r *rig) {
		path := filepath.Join(r.store, "signers.pem")
		must.Succeed(t, os.WriteFile(path, ours.pem, 0o644), os.Chmod(path, 0o666))
		compare.Error(t, "pull", "chmod go-w "+path, compare.ErrorOf(r.pull(t.Context())))
		must.Succeed(t, os.Chmod(path, 0o600))
		compare.NoError(t, "pull", compare.ErrorOf(r.pull(t.Context())))
	})
}
