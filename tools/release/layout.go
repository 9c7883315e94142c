package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"oras.land/oras-go/v2"
	"oras.land/oras-go/v2/content"
	"oras.land/oras-go/v2/content/oci"
	"oras.land/oras-go/v2/errdef"

	"b-com.com/accelerator-device-plugin/tools/archive"
)

// Media types of attached files, which are also their artifact types, and of Helm charts (pkg/registry in Helm).
const (
	sbomType       = "application/vnd.cyclonedx+json"
	provenanceType = "application/vnd.in-toto+json"

	// containerdName is the annotation for the name that containerd gives to a manifest or index on import.
	containerdName = "io.containerd.image.name"

	chartConfigType = "application/vnd.cncf.helm.config.v1+json"
	chartLayerType  = "application/vnd.cncf.helm.chart.content.v1.tar+gzip"
)

// Layout is an OCI layout in a temporary directory.
type Layout struct {
	release Release
	dir     string
	store   *oci.Store
}

// layout returns a new layout. The caller must remove its directory.
func (r Release) layout(ctx context.Context) (*Layout, error) {
	dir, err := os.MkdirTemp("", "layout")
	if err != nil {
		return nil, err
	}
	store, err := oci.NewWithContext(ctx, dir)
	return &Layout{r, dir, store}, err
}

// Image adds the image for an architecture from an archive that `make image` wrote, and attaches the bill of materials.
func (l *Layout) Image(ctx context.Context, name, arch string) (ocispec.Descriptor, error) {
	base := filepath.Join(l.release.Dist, fmt.Sprintf("%s_%s_%s", name, l.release.Version, arch))
	made, err := oci.NewFromTar(ctx, base+".tar")
	if err != nil {
		return ocispec.Descriptor{}, err
	}
	image, err := oras.Copy(ctx, made, l.release.tag(), l.store, "", oras.CopyOptions{})
	if err != nil {
		return ocispec.Descriptor{}, fmt.Errorf("%s.tar: %w", base, err)
	}
	// Drop the annotations: only the index gets the tag, and the archive's name for containerd doesn't apply here.
	image = ocispec.Descriptor{MediaType: image.MediaType, Digest: image.Digest, Size: image.Size, Platform: &ocispec.Platform{OS: "linux", Architecture: arch}}
	if err := l.store.Untag(ctx, l.release.tag()); err != nil {
		return image, err
	}
	bill, err := os.ReadFile(base + ".cdx.json")
	if err != nil {
		return image, err
	}
	return image, l.Attach(ctx, image, sbomType, filepath.Base(base)+".cdx.json", bill)
}

// Index adds an index of all architectures' images.
func (l *Layout) Index(ctx context.Context, images []ocispec.Descriptor, annotations map[string]string) (ocispec.Descriptor, error) {
	index := ocispec.Index{MediaType: ocispec.MediaTypeImageIndex, Manifests: images, Annotations: annotations}
	index.SchemaVersion = 2
	data, err := json.Marshal(index)
	if err != nil {
		return ocispec.Descriptor{}, err
	}
	return l.push(ctx, ocispec.MediaTypeImageIndex, data)
}

// Chart adds a packaged chart, the same way `helm push` does.
func (l *Layout) Chart(ctx context.Context, file string) (ocispec.Descriptor, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return ocispec.Descriptor{}, err
	}
	chart, err := loader.LoadArchive(bytes.NewReader(data))
	if err != nil {
		return ocispec.Descriptor{}, err
	}
	meta, err := json.Marshal(chart.Metadata)
	if err != nil {
		return ocispec.Descriptor{}, err
	}
	config, err := l.push(ctx, chartConfigType, meta)
	if err != nil {
		return ocispec.Descriptor{}, err
	}
	layer, err := l.push(ctx, chartLayerType, data)
	if err != nil {
		return ocispec.Descriptor{}, err
	}
	return oras.PackManifest(ctx, l.store, oras.PackManifestVersion1_1, "", oras.PackManifestOptions{
		ConfigDescriptor: &config, Layers: []ocispec.Descriptor{layer},
		ManifestAnnotations: l.release.annotations(chart.Name(), chart.Metadata.Description),
	})
}

// annotations returns the annotations for an index or a manifest.
func (r Release) annotations(name, description string) map[string]string {
	return map[string]string{
		ocispec.AnnotationTitle: name, ocispec.AnnotationDescription: description, ocispec.AnnotationVersion: r.Version,
		ocispec.AnnotationRevision: r.Revision, ocispec.AnnotationCreated: r.Created.Format(time.RFC3339),
	}
}

// Attach attaches a file to a subject.
func (l *Layout) Attach(ctx context.Context, subject ocispec.Descriptor, mediaType, name string, data []byte) error {
	layer, err := l.push(ctx, mediaType, data)
	if err != nil {
		return err
	}
	layer.Annotations = map[string]string{ocispec.AnnotationTitle: name}
	subject.Platform = nil
	_, err = oras.PackManifest(ctx, l.store, oras.PackManifestVersion1_1, mediaType, oras.PackManifestOptions{
		Subject: &subject, Layers: []ocispec.Descriptor{layer},
		ManifestAnnotations: map[string]string{ocispec.AnnotationCreated: l.release.Created.Format(time.RFC3339)},
	})
	return err
}

func (l *Layout) push(ctx context.Context, mediaType string, data []byte) (ocispec.Descriptor, error) {
	d := content.NewDescriptorFromBytes(mediaType, data)
	err := l.store.Push(ctx, d, bytes.NewReader(data))
	if errors.Is(err, errdef.ErrAlreadyExists) {
		err = nil
	}
	return d, err
}

// Write tags the layout's root, sets the name that containerd gives to it on import, and writes the layout as an
// archive. It sorts the entries in index.json, which the store writes in random order.
func (l *Layout) Write(ctx context.Context, root ocispec.Descriptor, name, file string) error {
	if err := l.store.Tag(ctx, root, l.release.tag()); err != nil {
		return err
	}
	files := make(archive.Files)
	err := filepath.WalkDir(l.dir, func(path string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		below, err := filepath.Rel(l.dir, path)
		if err != nil {
			return err
		}
		if err := files.Read(filepath.ToSlash(below), path); err != nil {
			return err
		}
		f := files[filepath.ToSlash(below)]
		f.Mode = 0o644 // the store makes blobs read-only
		files[filepath.ToSlash(below)] = f
		return nil
	})
	if err != nil {
		return err
	}
	var index ocispec.Index
	if err := json.Unmarshal(files[ocispec.ImageIndexFile].Data, &index); err != nil {
		return err
	}
	for _, m := range index.Manifests {
		// Remove the names that `make image` gave to the architectures' images. Otherwise, containerd would use the
		// last one.
		delete(m.Annotations, containerdName)
		if m.Digest == root.Digest && name != "" {
			m.Annotations[containerdName] = name
		}
	}
	// Put the tagged root first, for programs that use the first entry.
	slices.SortFunc(index.Manifests, func(a, b ocispec.Descriptor) int {
		rank := func(d digest.Digest) int {
			if d == root.Digest {
				return 0
			}
			return 1
		}
		return cmp.Or(cmp.Compare(rank(a.Digest), rank(b.Digest)), cmp.Compare(a.Digest, b.Digest))
	})
	if err := files.AddJSON(ocispec.ImageIndexFile, index); err != nil {
		return err
	}
	data, err := files.Tar(l.release.Created)
	if err != nil {
		return err
	}
	return os.WriteFile(file, data, 0o644)
}
