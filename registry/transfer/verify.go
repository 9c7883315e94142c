package transfer

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/content"
	"oras.land/oras-go/v2/errdef"
	"oras.land/oras-go/v2/registry/remote"

	"b-com.com/accelerator-device-plugin/internal/privatedir"
	"b-com.com/accelerator-device-plugin/registry/artifact"
	"b-com.com/accelerator-device-plugin/registry/signature"
)

// SignersFile is the name of a file in the store with the public keys (PEM) of everyone who is allowed to sign
// bitstreams for the store.
const SignersFile = "signers.pem"

// signers returns the keys in the store's [SignersFile], or nil if there is no such file.
func signers(dir *os.Root) (signature.Keys, error) {
	text, err := privatedir.ReadFile(dir, SignersFile, 64<<10)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	keys, err := signature.ParseKeys(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", filepath.Join(dir.Name(), SignersFile), err)
	}
	return keys, nil
}

// mostSignatures is the maximum number of signatures. Manifests with more are rejected.
const mostSignatures = 20

// verify returns an error unless the manifest is signed with one of the keys. where says where the keys come from, for
// error messages.
func (c *Client) verify(ctx context.Context, repo *remote.Repository, manifest ocispec.Descriptor, keys signature.Keys, where string) error {
	layers, err := c.signatures(ctx, repo, manifest)
	if err != nil {
		return err
	}
	if len(layers) > mostSignatures {
		return fmt.Errorf("signatures of %s: found more than %d, want fewer", manifest.Digest, mostSignatures)
	}
	reason := errors.New("found none")
	for _, layer := range layers {
		text, err := c.small(ctx, repo, layer)
		if err != nil {
			return err
		}
		var sig []byte
		if layer.MediaType == signature.Bundle {
			reason = keys.VerifyBundle(text, manifest.Digest)
		} else if sig, reason = base64.StdEncoding.DecodeString(layer.Annotations[signature.Annotation]); reason == nil {
			reason = keys.VerifySimple(text, sig, manifest.Digest)
		}
		if reason == nil {
			return nil
		}
	}
	return fmt.Errorf("signature of %s: %w, want one by a key in %s: cosign sign --key", manifest.Digest, reason, where)
}

// signatures returns the layers that contain a manifest's signatures, in either of cosign's two formats.
func (c *Client) signatures(ctx context.Context, repo *remote.Repository, manifest ocispec.Descriptor) (layers []ocispec.Descriptor, err error) {
	add := func(text []byte, mediaType string) error {
		var m ocispec.Manifest
		if err := json.Unmarshal(text, &m); err != nil {
			return fmt.Errorf("manifest of a signature: %w", err)
		}
		for _, layer := range m.Layers {
			if layer.MediaType == mediaType {
				layers = append(layers, layer)
			}
		}
		return nil
	}
	text, _, err := c.manifest(ctx, repo, signature.Tag(manifest.Digest))
	if err == nil {
		err = add(text, signature.Simple)
	} else if errors.Is(err, errdef.ErrNotFound) {
		err = nil
	}
	if err != nil {
		return nil, err
	}
	var bundles []ocispec.Descriptor
	if err := c.attempts(ctx, func() (bool, error) {
		bundles = nil
		return false, repo.Referrers(ctx, manifest, signature.Bundle, func(page []ocispec.Descriptor) error {
			bundles = append(bundles, page...)
			return nil
		})
	}); err != nil {
		return nil, err
	}
	for _, bundle := range bundles[:min(len(bundles), mostSignatures+1)] {
		text, err := c.small(ctx, repo, bundle)
		if err == nil {
			err = add(text, signature.Bundle)
		}
		if err != nil {
			return nil, err
		}
	}
	return layers, nil
}

// small fetches a manifest or blob of up to [artifact.MaxManifest] bytes.
func (c *Client) small(ctx context.Context, repo *remote.Repository, d ocispec.Descriptor) (text []byte, err error) {
	if err := d.Digest.Validate(); err != nil {
		return nil, fmt.Errorf("%s: found digest %q: %w", d.MediaType, d.Digest, err)
	}
	if d.Size > artifact.MaxManifest {
		return nil, fmt.Errorf("%s: found %d bytes, want at most %d", d.MediaType, d.Size, artifact.MaxManifest)
	}
	return text, c.attempts(ctx, func() (bool, error) {
		if text, err = content.FetchAll(ctx, repo, d); errors.Is(err, errdef.ErrNotFound) {
			err = fmt.Errorf("%s: found none with digest %s in the registry", d.MediaType, d.Digest)
		}
		return false, err
	})
}
