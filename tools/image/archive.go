package main

import (
	"bytes"
	"io"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// Image contains everything that determines an image.
type Image struct {
	Name        string
	Description string
	Licence     string    // the licence of the image as a whole, as an SPDX expression
	Version     string    // the project's version, as in its programs; in the tag, `_` replaces `+`
	Revision    string    // commit
	Created     time.Time // the commit's time
	Arch        string    // amd64 or arm64
	Entrypoint  string
	Files       Files
}

// build returns the image, which consists of a single layer and its configuration.
func (i Image) build() (v1.Image, error) {
	files, err := i.Files.Tar(i.Created)
	if err != nil {
		return nil, err
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(files)), nil
	}, tarball.WithMediaType(types.OCILayer))
	if err != nil {
		return nil, err
	}
	created := v1.Time{Time: i.Created}
	base := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	img, err := mutate.Append(base, mutate.Addendum{Layer: layer, History: v1.History{Created: created, CreatedBy: "make image"}})
	if err != nil {
		return nil, err
	}
	config, err := img.ConfigFile()
	if err != nil {
		return nil, err
	}
	config = config.DeepCopy()
	config.OS, config.Architecture, config.Created = "linux", i.Arch, created
	config.Config = v1.Config{Entrypoint: []string{i.Entrypoint}, Env: []string{"PATH=/usr/bin"}, Labels: i.labels()}
	return mutate.ConfigFile(img, config)
}

// tag returns the image's tag.
func (i Image) tag() string { return strings.ReplaceAll(i.Version, "+", "_") }

// labels returns the image's labels as defined by the OCI image specification.
func (i Image) labels() map[string]string {
	const prefix = "org.opencontainers.image."
	labels := map[string]string{
		prefix + "title":       i.Name,
		prefix + "description": i.Description,
		prefix + "version":     i.Version,
		prefix + "created":     i.Created.Format(time.RFC3339),
		prefix + "licenses":    i.Licence,
	}
	if i.Revision != "" {
		labels[prefix+"revision"] = i.Revision
	}
	return labels
}

// Archive returns the image as an OCI layout in a tar archive, and the digest of its manifest.
func (i Image) Archive() ([]byte, v1.Hash, error) {
	img, err := i.build()
	if err != nil {
		return nil, v1.Hash{}, err
	}
	digest, err := img.Digest()
	if err != nil {
		return nil, v1.Hash{}, err
	}
	files, err := i.layout(img)
	if err != nil {
		return nil, v1.Hash{}, err
	}
	archive, err := files.Tar(i.Created)
	return archive, digest, err
}

// layout returns the files of the OCI image layout, and a manifest.json like the one that `docker save` writes.
func (i Image) layout(img v1.Image) (Files, error) {
	files := Files{"oci-layout": {Mode: 0o644, Data: []byte(`{"imageLayoutVersion":"1.0.0"}`)}}
	blob := func(data []byte, err error) (string, error) {
		if err != nil {
			return "", err
		}
		hash, _, err := v1.SHA256(bytes.NewReader(data))
		where := "blobs/sha256/" + hash.Hex
		files[where] = File{Mode: 0o644, Data: data}
		return where, err
	}
	config, err := blob(img.RawConfigFile())
	if err != nil {
		return nil, err
	}
	layers, err := img.Layers()
	if err != nil {
		return nil, err
	}
	saved := dockerManifest{Config: config, RepoTags: []string{i.Name + ":" + i.tag()}}
	for _, layer := range layers {
		where, err := blob(compressed(layer))
		if err != nil {
			return nil, err
		}
		saved.Layers = append(saved.Layers, where)
	}
	manifest, err := img.RawManifest()
	if _, err := blob(manifest, err); err != nil {
		return nil, err
	}
	if err := files.AddJSON("manifest.json", []dockerManifest{saved}); err != nil {
		return nil, err
	}
	index, err := i.index(img, int64(len(manifest)))
	if err != nil {
		return nil, err
	}
	return files, files.AddJSON("index.json", index)
}

// index returns the index for the image's manifest. Its annotations are the tag, and the name that containerd gives to
// the image on import. The kubelet finds the image under this name.
func (i Image) index(img v1.Image, size int64) (v1.IndexManifest, error) {
	digest, err := img.Digest()
	return v1.IndexManifest{
		SchemaVersion: 2,
		MediaType:     types.OCIImageIndex,
		Manifests: []v1.Descriptor{{
			MediaType: types.OCIManifestSchema1, Digest: digest, Size: size,
			Platform: &v1.Platform{OS: "linux", Architecture: i.Arch},
			Annotations: map[string]string{
				"org.opencontainers.image.ref.name": i.tag(),
				"io.containerd.image.name":          "docker.io/library/" + i.Name + ":" + i.tag(),
			},
		}},
	}, err
}

// dockerManifest is an entry in `docker save`'s manifest.json.
type dockerManifest struct {
	Config   string
	RepoTags []string
	Layers   []string
}

func compressed(layer v1.Layer) ([]byte, error) {
	r, err := layer.Compressed()
	if err != nil {
		return nil, err
	}
	defer r.Close()
	return io.ReadAll(r)
}
