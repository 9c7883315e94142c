package main

import (
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	intoto "github.com/in-toto/attestation/go/v1"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// Release contains everything that determines a release.
type Release struct {
	Version, Registry, URL string
	Revision               string    // commit
	Created                time.Time // the commit's time
	Tree, Dist, Out        string
}

// images lists a release's images and their descriptions.
var images = []struct{ name, description string }{
	{"accelerator-device-plugin", "Kubernetes device plugin for FPGA cards"},
	{"accelerator-dra-driver", "Kubernetes DRA driver for FPGA cards"},
	{"accelerator-fpga-registry", "Bitstreams for FPGA cards from OCI registries"},
	{"accelerator-operator", "Names for FPGA functions in Kubernetes"},
}

// platforms lists the images' architectures.
var platforms = []string{"amd64", "arm64"}

//go:embed publish.sh
var publish string

// artifact is an image or chart that is pushed to a registry.
type artifact struct {
	repository string // path below the registry
	digest     string
}

// Pack adds a release's missing parts to the Out directory.
func (r Release) Pack(ctx context.Context) error {
	var artifacts []artifact
	for _, image := range images {
		digest, err := r.packImage(ctx, image.name, image.description)
		if err != nil {
			return fmt.Errorf("image %s: %w", image.name, err)
		}
		artifacts = append(artifacts, artifact{image.name, digest})
	}
	charts, err := filepath.Glob(filepath.Join(r.Out, "*-"+r.Version+".tgz"))
	if err != nil || len(charts) == 0 {
		return fmt.Errorf("%s: found no chart of version %s, want those of make chart: %w", r.Out, r.Version, err)
	}
	for _, file := range charts {
		name := strings.TrimSuffix(filepath.Base(file), "-"+r.Version+".tgz")
		digest, err := r.packChart(ctx, file, name)
		if err != nil {
			return fmt.Errorf("chart %s: %w", name, err)
		}
		artifacts = append(artifacts, artifact{"charts/" + name, digest})
	}
	notes, err := r.notes(artifacts)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(r.Out, "release-notes.md"), notes, 0o644); err != nil {
		return err
	}
	script := strings.NewReplacer("@VERSION@", r.Version, "@REGISTRY@", r.Registry).Replace(publish)
	if err := os.WriteFile(filepath.Join(r.Out, "publish.sh"), []byte(script), 0o755); err != nil {
		return err
	}
	predicate, err := marshal(r.predicate())
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(r.Out, "provenance.json"), predicate, 0o644); err != nil {
		return err
	}
	sums, subjects, err := r.sums()
	if err != nil {
		return err
	}
	statement, err := r.statement(subjects...)
	if err != nil {
		return err
	}
	const provenance = "provenance.intoto.json"
	if err := os.WriteFile(filepath.Join(r.Out, provenance), statement, 0o644); err != nil {
		return err
	}
	sums += sum(statement) + "  " + provenance + "\n"
	return os.WriteFile(filepath.Join(r.Out, "SHA256SUMS"), []byte(sums), 0o644)
}

// packImage writes an image's layout, and returns the digest of its index.
func (r Release) packImage(ctx context.Context, name, description string) (digest string, err error) {
	l, err := r.layout(ctx)
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(l.dir)
	var manifests []ocispec.Descriptor
	for _, arch := range platforms {
		manifest, err := l.Image(ctx, name, arch)
		if err != nil {
			return "", err
		}
		manifests = append(manifests, manifest)
	}
	index, err := l.Index(ctx, manifests, r.annotations(name, description))
	if err != nil {
		return "", err
	}
	// Without a registry, the image gets the name that containerd would use for it.
	reference := "docker.io/library/" + name
	if r.Registry != "" {
		reference = r.image(name)
	}
	return r.finish(ctx, l, index, name, reference+":"+r.tag(), "image")
}

// packChart writes a chart's layout, and returns the digest of its manifest.
func (r Release) packChart(ctx context.Context, file, name string) (digest string, err error) {
	l, err := r.layout(ctx)
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(l.dir)
	manifest, err := l.Chart(ctx, file)
	if err != nil {
		return "", err
	}
	return r.finish(ctx, l, manifest, name, "", "chart")
}

// finish attaches provenance to the layout's root, writes the layout, and returns the root's digest.
func (r Release) finish(ctx context.Context, l *Layout, root ocispec.Descriptor, name, reference, kind string) (digest string, err error) {
	statement, err := r.statement(subject(name, root.Digest.Encoded()))
	if err != nil {
		return "", err
	}
	base := filepath.Join(r.Out, fmt.Sprintf("%s_%s_%s", name, r.Version, kind))
	if err := l.Attach(ctx, root, provenanceType, filepath.Base(base)+".intoto.json", statement); err != nil {
		return "", err
	}
	fmt.Printf("%s.tar: %s %s\n", base, r.tag(), root.Digest)
	return root.Digest.String(), l.Write(ctx, root, reference, base+".tar")
}

// sums returns the lines of SHA256SUMS for the release's files, and the files as a statement's subjects.
func (r Release) sums() (lines string, subjects []*intoto.ResourceDescriptor, err error) {
	entries, err := os.ReadDir(r.Out)
	if err != nil {
		return "", nil, err
	}
	for _, entry := range entries {
		data, err := os.ReadFile(filepath.Join(r.Out, entry.Name()))
		if err != nil {
			return "", nil, err
		}
		lines += sum(data) + "  " + entry.Name() + "\n"
		subjects = append(subjects, subject(entry.Name(), sum(data)))
	}
	return lines, subjects, nil
}

func sum(data []byte) string {
	s := sha256.Sum256(data)
	return hex.EncodeToString(s[:])
}

// notes returns the release notes: upgrade notes, digests, and other changes.
func (r Release) notes(artifacts []artifact) ([]byte, error) {
	sections, err := r.changes()
	if err != nil {
		return nil, err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "# accelerator-device-plugin %s\n\ndocs/releases.md shows how to verify and install this release. Paths are in its source, commit %s.\n", r.Version, r.Revision)
	part := func(s Section) {
		fmt.Fprintf(&b, "\n## %s\n\n", s.Title)
		for _, entry := range s.Entries {
			fmt.Fprintf(&b, "- %s\n", entry)
		}
	}
	for _, s := range sections {
		if s.Title == "Upgrade notes" {
			part(s)
		}
	}
	fmt.Fprintf(&b, "\n## Images and charts\n\nThe tag is `%s`.\n\n| repository, below the registry | digest |\n|---|---|\n", r.tag())
	for _, a := range artifacts {
		fmt.Fprintf(&b, "| `%s` | `%s` |\n", a.repository, a.digest)
	}
	for _, s := range sections {
		if s.Title != "Upgrade notes" {
			part(s)
		}
	}
	return []byte(b.String()), nil
}
