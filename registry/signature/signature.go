package signature

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"

	"github.com/opencontainers/go-digest"
)

// Media types. Simple is the type of the layers in the manifest whose tag [Tag] returns. Bundle is both the artifact
// type of a referrer and the type of the referrer's layer.
const (
	Simple = "application/vnd.dev.cosign.simplesigning.v1+json"
	Bundle = "application/vnd.dev.sigstore.bundle.v0.3+json"
)

// Annotation is the annotation of a [Simple] layer that holds the layer's signature in base64.
const Annotation = "dev.cosignproject.cosign/signature"

// Tag returns the tag that cosign uses for a manifest's signatures.
func Tag(manifest digest.Digest) string {
	return manifest.Algorithm().String() + "-" + manifest.Encoded() + ".sig"
}

// Keys are public keys. A signature from any of them is valid.
type Keys []crypto.PublicKey

// ParseKeys parses one or more public keys in PEM, such as those in cosign.pub.
func ParseKeys(text []byte) (Keys, error) {
	var keys Keys
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		if block.Type != "PUBLIC KEY" {
			return nil, fmt.Errorf("found %q, want PUBLIC KEY", block.Type)
		}
		key, err := x509.ParsePKIXPublicKey(block.Bytes)
		if err != nil {
			return nil, err
		}
		switch k := key.(type) {
		case *ecdsa.PublicKey:
			if k.Curve != elliptic.P256() {
				return nil, fmt.Errorf("found an ECDSA key on %s, want P-256", k.Params().Name)
			}
		case *rsa.PublicKey:
			if k.Size() < 256 {
				return nil, fmt.Errorf("found an RSA key of %d bits, want 2048 or more", k.Size()*8)
			}
		case ed25519.PublicKey:
		default:
			return nil, fmt.Errorf("found a key of type %T, want ECDSA, Ed25519 or RSA", key)
		}
		keys = append(keys, key)
	}
	if len(keys) == 0 {
		return nil, errors.New("found no public key in PEM, want one or more")
	}
	if lines := bytes.Count(text, []byte("-----BEGIN ")); lines != len(keys) { // package pem skips damaged blocks
		return nil, fmt.Errorf("found %d lines with BEGIN, want %d, one for each public key: a block is damaged", lines, len(keys))
	}
	return keys, nil
}

// signed reports whether the message's signature was made with one of the keys.
func (keys Keys) signed(message, signature []byte) bool {
	sum := sha256.Sum256(message)
	for _, key := range keys {
		ok := false
		switch k := key.(type) {
		case *ecdsa.PublicKey:
			ok = ecdsa.VerifyASN1(k, sum[:], signature)
		case *rsa.PublicKey:
			ok = rsa.VerifyPKCS1v15(k, crypto.SHA256, sum[:], signature) == nil
		case ed25519.PublicKey:
			ok = ed25519.Verify(k, message, signature)
		}
		if ok {
			return true
		}
	}
	return false
}

var errKey = errors.New("found a signature by another key, or a changed one")

// VerifySimple returns an error unless the payload was signed with one of the keys and contains the manifest's digest.
func (keys Keys) VerifySimple(payload, signature []byte, manifest digest.Digest) error {
	if !keys.signed(payload, signature) {
		return errKey
	}
	var p struct {
		Critical struct {
			Image struct {
				Digest string `json:"docker-manifest-digest"`
			} `json:"image"`
			Type string `json:"type"`
		} `json:"critical"`
	}
	if err := json.Unmarshal(payload, &p); err != nil {
		return fmt.Errorf("payload: %w", err)
	}
	if p.Critical.Type != "cosign container image signature" || p.Critical.Image.Digest != manifest.String() {
		return fmt.Errorf("found a signature (%s) of %s, want one of %s", p.Critical.Type, p.Critical.Image.Digest, manifest)
	}
	return nil
}

// VerifyBundle returns an error unless the bundle's statement was signed with one of the keys and contains the
// manifest's digest.
func (keys Keys) VerifyBundle(bundle []byte, manifest digest.Digest) error {
	const payloadType, predicate = "application/vnd.in-toto+json", "https://sigstore.dev/cosign/sign/v1"
	var b struct {
		Envelope struct {
			Payload     []byte `json:"payload"`
			PayloadType string `json:"payloadType"`
			Signatures  []struct {
				Sig []byte `json:"sig"`
			} `json:"signatures"`
		} `json:"dsseEnvelope"`
	}
	if err := json.Unmarshal(bundle, &b); err != nil {
		return fmt.Errorf("bundle: %w", err)
	}
	e := b.Envelope
	if len(e.Signatures) != 1 || e.PayloadType != payloadType {
		return fmt.Errorf("bundle: found %d signatures of %q, want 1 of %q", len(e.Signatures), e.PayloadType, payloadType)
	}
	// DSSE's encoding, https://github.com/secure-systems-lab/dsse/blob/master/protocol.md
	message := fmt.Appendf(nil, "DSSEv1 %d %s %d %s", len(payloadType), payloadType, len(e.Payload), e.Payload)
	if !keys.signed(message, e.Signatures[0].Sig) {
		return errKey
	}
	var s struct {
		Subject []struct {
			Digest map[string]string `json:"digest"`
		} `json:"subject"`
		PredicateType string `json:"predicateType"`
	}
	if err := json.Unmarshal(e.Payload, &s); err != nil {
		return fmt.Errorf("statement: %w", err)
	}
	for _, subject := range s.Subject {
		if s.PredicateType == predicate && subject.Digest[manifest.Algorithm().String()] == manifest.Encoded() {
			return nil
		}
	}
	return fmt.Errorf("found a statement (%s) about other manifests, want a signature of %s", s.PredicateType, manifest)
}
