package artifact

import (
	"cmp"
	"encoding/json"
	"fmt"

	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"b-com.com/accelerator-device-plugin/programming"
)

// Type is a bitstream's artifact type. The manifest has one layer, whose media type is Type followed by the format, for
// example Type + ".gbs".
const Type = "application/vnd.b-com.accelerator.bitstream.v1"

// Annotations of a bitstream's manifest. hash and board are set only for AOCX files.
const (
	prefix      = "com.b-com.accelerator."
	interfaceID = prefix + "interface-id"
	afuID       = prefix + "afu-id"
	format      = prefix + "format"
	hash        = prefix + "hash"
	board       = prefix + "board"
)

// MaxManifest is the maximum size of a manifest, in bytes. [Description.Manifest] returns manifests of about 1 KiB.
const MaxManifest = 64 << 10

// Description is what a manifest says about its bitstream.
type Description struct {
	Format, InterfaceID, AFUID string // as in programming.Bitstream
	Hash, Board                string // for an AOCX
	File                       digest.Digest
	Size                       int64 // the file's size, in bytes
}

// Describe returns the description of a bitstream whose file has the given digest and size.
func Describe(b *programming.Bitstream, file digest.Digest, size int64) Description {
	return Description{b.Format, b.InterfaceID, b.AFUID, b.Hash, b.Board, file, size}
}

// ID returns the ID that pods use to select the bitstream.
func (d Description) ID() string { return cmp.Or(d.Hash, d.AFUID) }

// Layer returns the file's descriptor.
func (d Description) Layer() ocispec.Descriptor {
	return ocispec.Descriptor{MediaType: Type + "." + d.Format, Digest: d.File, Size: d.Size}
}

// Manifest returns the manifest for the described bitstream. title is the file name that other tools use when they pull
// the bitstream. The result depends only on d and title.
func (d Description) Manifest(title string) ([]byte, error) {
	layer := d.Layer()
	layer.Annotations = map[string]string{ocispec.AnnotationTitle: title}
	annotations := map[string]string{interfaceID: d.InterfaceID, afuID: d.AFUID, format: d.Format}
	if d.Format == programming.AOCX {
		annotations[hash], annotations[board] = d.Hash, d.Board
	}
	return json.MarshalIndent(ocispec.Manifest{
		Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageManifest, ArtifactType: Type,
		Config: ocispec.DescriptorEmptyJSON, Layers: []ocispec.Descriptor{layer}, Annotations: annotations,
	}, "", "  ")
}

// Parse parses a manifest. It returns an error if the manifest doesn't describe exactly one bitstream.
func Parse(text []byte) (Description, error) {
	var m ocispec.Manifest
	if err := json.Unmarshal(text, &m); err != nil {
		return Description{}, fmt.Errorf("manifest: %w", err)
	}
	if m.MediaType != ocispec.MediaTypeImageManifest || m.SchemaVersion != 2 {
		return Description{}, fmt.Errorf("manifest: found %q of version %d, want %q of version 2", m.MediaType, m.SchemaVersion, ocispec.MediaTypeImageManifest)
	}
	if m.ArtifactType != Type {
		return Description{}, fmt.Errorf("artifactType: found %q, want %q of a bitstream: accelerator-fpga push", m.ArtifactType, Type)
	}
	if len(m.Layers) != 1 {
		return Description{}, fmt.Errorf("layers: found %d, want 1", len(m.Layers))
	}
	layer, d := m.Layers[0], Description{Format: m.Annotations[format]}
	if d.Format != programming.GBS && d.Format != programming.AOCX {
		return Description{}, fmt.Errorf("annotation %s: found %q, want gbs or aocx", format, d.Format)
	}
	if want := Type + "." + d.Format; layer.MediaType != want {
		return Description{}, fmt.Errorf("layer: found media type %q, want %q", layer.MediaType, want)
	}
	if err := layer.Digest.Validate(); err != nil || layer.Digest.Algorithm() != digest.SHA256 {
		return Description{}, fmt.Errorf("layer: found digest %q, want sha256 and 64 hex digits", layer.Digest)
	}
	if layer.Size < 1 || layer.Size > programming.MaxSize {
		return Description{}, fmt.Errorf("layer: found %d bytes, want 1 to %d", layer.Size, programming.MaxSize)
	}
	d.File, d.Size = layer.Digest, layer.Size
	for name, id := range map[string]*string{interfaceID: &d.InterfaceID, afuID: &d.AFUID} {
		var err error
		if *id, err = programming.ParseID(m.Annotations[name]); err != nil {
			return Description{}, fmt.Errorf("annotation %s: %w", name, err)
		}
	}
	if d.Format == programming.AOCX {
		var err error
		if d.Hash, err = programming.ParseFileID(m.Annotations[hash]); err != nil {
			return Description{}, fmt.Errorf("annotation %s: %w", hash, err)
		}
		d.Board = m.Annotations[board]
	}
	return d, nil
}

// Check returns an error if the bitstream doesn't match its description in the manifest.
func (d Description) Check(b *programming.Bitstream) error {
	for _, part := range []struct{ name, announced, found string }{
		{format, d.Format, b.Format}, {interfaceID, d.InterfaceID, b.InterfaceID}, {afuID, d.AFUID, b.AFUID},
		{hash, d.Hash, b.Hash}, {board, d.Board, b.Board},
	} {
		if part.announced != part.found {
			return fmt.Errorf("annotation %s: found %q, want %q as in the file: push the file again", part.name, part.announced, part.found)
		}
	}
	return nil
}
