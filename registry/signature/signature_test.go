package signature_test

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"strings"
	"testing"

	"github.com/opencontainers/go-digest"

	"b-com.com/accelerator-device-plugin/registry/signature"
	"b-com.com/accelerator-device-plugin/test/compare"
	"b-com.com/accelerator-device-plugin/test/must"
)

const signed = digest.Digest("sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa")

func encode(t *testing.T, key crypto.PublicKey) []byte {
	t.Helper()
	return pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: must.Value(x509.MarshalPKIXPublicKey(key))(t)})
}

func payload(kind string, d digest.Digest) []byte {
	return fmt.Appendf(nil, `{"critical": {"identity": {"docker-reference": "x"}, "image": {"docker-manifest-digest": %q}, "type": %q}, "optional": null}`, d, kind)
}

// A signature by any of the keys, of each kind, is accepted for the manifest that it names, and for no other.
func TestVerify(t *testing.T) {
	ec := must.Value(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	rs := must.Value(rsa.GenerateKey(rand.Reader, 2048))(t)
	_, ed, _ := ed25519.GenerateKey(rand.Reader)
	keys := must.Value(signature.ParseKeys(bytes.Join([][]byte{encode(t, ed.Public()), encode(t, rs.Public()), encode(t, ec.Public())}, nil)))(t)
	stranger := must.Value(signature.ParseKeys(encode(t, must.Value(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t).Public())))(t)
	const kind = "cosign container image signature"
	for name, sign := range map[string]func(message []byte) ([]byte, error){
		"ECDSA": func(m []byte) ([]byte, error) {
			s := sha256.Sum256(m)
			return ec.Sign(rand.Reader, s[:], crypto.SHA256)
		},
		"RSA": func(m []byte) ([]byte, error) {
			s := sha256.Sum256(m)
			return rs.Sign(rand.Reader, s[:], crypto.SHA256)
		},
		"Ed25519": func(m []byte) ([]byte, error) { return ed.Sign(rand.Reader, m, crypto.Hash(0)) },
	} {
		of := func(message []byte) []byte { return must.Value(sign(message))(t) }
		good := payload(kind, signed)
		compare.NoError(t, name, keys.VerifySimple(good, of(good), signed))
		compare.Error(t, name+", another key", "by another key", stranger.VerifySimple(good, of(good), signed))
		compare.Error(t, name+", changed", "or a changed one", keys.VerifySimple(append(good, ' '), of(good), signed))
		compare.Error(t, name+", no signature", "", keys.VerifySimple(good, nil, signed))
		for want, other := range map[string][]byte{
			"of sha256:bbb": payload(kind, digest.Digest("sha256:"+strings.Repeat("b", 64))), "(atomic container signature)": payload("atomic container signature", signed),
			"payload: ": []byte("{"), "() of , want": []byte("{}"),
		} {
			compare.Error(t, name+", another payload", want, keys.VerifySimple(other, of(other), signed))
		}

		const intoto = "application/vnd.in-toto+json"
		bundle := func(payloadType, statement string, signatures int) []byte {
			sig := fmt.Sprintf(`{"sig": %q}`, base64.StdEncoding.EncodeToString(of(fmt.Appendf(nil, "DSSEv1 %d %s %d %s", len(payloadType), payloadType, len(statement), statement))))
			return fmt.Appendf(nil, `{"mediaType": %q, "dsseEnvelope": {"payload": %q, "payloadType": %q, "signatures": [%s]}}`, signature.Bundle,
				base64.StdEncoding.EncodeToString([]byte(statement)), payloadType, strings.TrimSuffix(strings.Repeat(sig+",", signatures), ","))
		}
		statement := func(predicate, subject string) string {
			return fmt.Sprintf(`{"_type": "https://in-toto.io/Statement/v1", "subject": [{"digest": {"sha256": %q}}], "predicateType": %q, "predicate": {}}`, subject, predicate)
		}
		sound := statement("https://sigstore.dev/cosign/sign/v1", signed.Encoded())
		compare.NoError(t, name+" bundle", keys.VerifyBundle(bundle(intoto, sound, 1), signed))
		compare.Error(t, name+" bundle, another key", "by another key", stranger.VerifyBundle(bundle(intoto, sound, 1), signed))
		for want, other := range map[string][]byte{
			"bundle: ":                     []byte("{"),
			"found 0 signatures":           []byte("{}"),
			"found 2 signatures":           bundle(intoto, sound, 2),
			`signatures of "text/plain"`:   bundle("text/plain", sound, 1),
			"about other manifests":        bundle(intoto, statement("https://sigstore.dev/cosign/sign/v1", strings.Repeat("b", 64)), 1),
			"(https://slsa.dev/provenance": bundle(intoto, statement("https://slsa.dev/provenance/v1", signed.Encoded()), 1),
			"statement: ":                  bundle(intoto, "{", 1),
		} {
			compare.Error(t, name+" bundle", want, keys.VerifyBundle(other, signed))
		}
	}
}

func TestParseKeys(t *testing.T) {
	for want, text := range map[string][]byte{
		"found no public key":           []byte("x"),
		"found 2 lines with BEGIN":      append(encode(t, must.Value(rsa.GenerateKey(rand.Reader, 2048))(t).Public()), "-----BEGIN PUBLIC KEY-----\nA!AA\n-----END PUBLIC KEY-----\n"...),
		`found "PRIVATE KEY"`:           []byte("-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"),
		"asn1":                          []byte("-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n"),
		"found an ECDSA key on P-384":   encode(t, must.Value(ecdsa.GenerateKey(elliptic.P384(), rand.Reader))(t).Public()),
		"found an RSA key of 1024 bits": encode(t, must.Value(rsa.GenerateKey(rand.Reader, 1024))(t).Public()),
	} {
		compare.Error(t, "keys", want, compare.ErrorOf(signature.ParseKeys(text)))
	}
}
