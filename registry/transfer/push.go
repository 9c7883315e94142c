package transfer

import (
	"bytes"
	"context"
	"io"
	"path/filepath"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/content"
	"oras.land/oras-go/v2/registry"

	"b-com.com/accelerator-device-plugin/programming"
	"b-com.com/accelerator-device-plugin/registry/artifact"
)

// Push pushes a bitstream, and returns its manifest's digest. It doesn't send the file if the registry already has it.
func (c *Client) Push(ctx context.Context, ref registry.Reference, b *programming.Bitstream) (digest.Digest, error) {
	file, err := digest.FromReader(b.Content())
	if err != nil {
		return "", err
	}
	d := artifact.Describe(b, file, b.Content().Size())
	text, err := d.Manifest(filepath.Base(b.Path))
	if err != nil {
		return "", err
	}
	repo := c.repository(ref)
	for _, blob := range []struct {
		ocispec.Descriptor
		open func() io.Reader
	}{
		{d.Layer(), func() io.Reader { return &counted{b.Content(), 0, d.Size, c.Progress} }},
		{ocispec.DescriptorEmptyJSON, func() io.Reader { return bytes.NewReader(ocispec.DescriptorEmptyJSON.Data) }},
	} {
		err := c.attempts(ctx, func() (bool, error) {
			if there, err := repo.Blobs().Exists(ctx, blob.Descriptor); there || err != nil {
				return false, err
			}
			return false, repo.Blobs().Push(ctx, blob.Descriptor, blob.open())
		})
		if err != nil {
			return "", err
		}
	}
	manifest := content.NewDescriptorFromBytes(ocispec.MediaTypeImageManifest, text)
	return manifest.Digest, c.attempts(ctx, func() (bool, error) {
		return false, repo.Manifests().PushReference(ctx, manifest, bytes.NewReader(text), ref.Reference)
	})
}

// counted is a reader that reports how much of it has been read.
type counted struct {
	io.Reader
	done, total int64
	progress    func(done, total int64)
}

func (c *counted) Read(b []byte) (int, error) {
	n, err := c.Reader.Read(b)
	c.done += int64(n)
	c.progress(c.done, c.total)
	return n, err
}
