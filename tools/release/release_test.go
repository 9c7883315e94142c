package main

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	provenance "github.com/in-toto/attestation/go/predicates/provenance/v1"
	intoto "github.com/in-toto/attestation/go/v1"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"google.golang.org/protobuf/encoding/protojson"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"oras.land/oras-go/v2"
	"oras.land/oras-go/v2/content"
	"oras.land/oras-go/v2/content/oci"
	"sigs.k8s.io/yaml"

	"b-com.com/accelerator-device-plugin/tools/archive"
)

// example is a release between releases, from the charts and the changelog of this tree.
func example(t *testing.T) Release {
	dir := t.TempDir()
	return Release{
		Version: "1.2.3-dev+abc", Registry: "registry.example.com/fpga", URL: "https://example.com/v", Revision: strings.Repeat("0123456789", 4),
		Created: time.Unix(1_800_000_000, 0).UTC(), Tree: "../..", Dist: filepath.Join(dir, "dist"), Out: filepath.Join(dir, "release"),
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func parse(t *testing.T, data []byte, to any) {
	t.Helper()
	if err := yaml.Unmarshal(data, to); err != nil {
		t.Fatal(err)
	}
}

// made writes archives and bills of materials as make image does, with one small layer, and packs the release.
func made(t *testing.T, r Release) {
	t.Helper()
	ctx := t.Context()
	for _, image := range images {
		for _, arch := range platforms {
			base := filepath.Join(r.Dist, fmt.Sprintf("%s_%s_%s", image.name, r.Version, arch))
			write(t, base+".cdx.json", `{"bomFormat":"CycloneDX","image":"`+image.name+arch+`"}`)
			dir := t.TempDir()
			store, err := oci.New(dir)
			if err != nil {
				t.Fatal(err)
			}
			push := func(mediaType, data string) ocispec.Descriptor {
				d := content.NewDescriptorFromBytes(mediaType, []byte(data))
				if err := store.Push(ctx, d, strings.NewReader(data)); err != nil {
					t.Fatal(err)
				}
				return d
			}
			config := push(ocispec.MediaTypeImageConfig, `{"architecture":"`+arch+`","os":"linux","name":"`+image.name+`"}`)
			layer := push(ocispec.MediaTypeImageLayer, "layer "+image.name+arch)
			manifest, err := oras.PackManifest(ctx, store, oras.PackManifestVersion1_1, "", oras.PackManifestOptions{
				ConfigDescriptor: &config, Layers: []ocispec.Descriptor{layer},
				ManifestAnnotations: map[string]string{ocispec.AnnotationCreated: r.Created.Format(time.RFC3339)},
			})
			if err != nil {
				t.Fatal(err)
			}
			manifest.Annotations = map[string]string{"io.containerd.image.name": "docker.io/library/" + image.name + ":" + r.tag()}
			if err := store.Tag(ctx, manifest, r.tag()); err != nil {
				t.Fatal(err)
			}
			files := make(archive.Files)
			for _, name := range []string{"oci-layout", "index.json", "blobs"} {
				err := filepath.WalkDir(filepath.Join(dir, name), func(path string, entry fs.DirEntry, err error) error {
					if err != nil || entry.IsDir() {
						return err
					}
					return files.Read(strings.TrimPrefix(path, dir+"/"), path)
				})
				if err != nil {
					t.Fatal(err)
				}
			}
			image, err := files.Tar(r.Created)
			if err != nil {
				t.Fatal(err)
			}
			write(t, base+".tar", string(image))
		}
	}
	write(t, filepath.Join(r.Out, "accelerator-fpga.txt"), "a program")
	for _, chart := range []string{"accelerator-device-plugin", "accelerator-operator"} {
		if err := r.WriteChart(chart); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.Pack(ctx); err != nil {
		t.Fatal(err)
	}
}

// referrers returns what is attached to a manifest, by media type.
func referrers(t *testing.T, store *oci.ReadOnlyStore, subject ocispec.Descriptor) map[string]string {
	t.Helper()
	all, err := store.Predecessors(t.Context(), subject)
	if err != nil {
		t.Fatal(err)
	}
	found := make(map[string]string)
	for _, d := range all {
		var m ocispec.Manifest
		fetch(t, store, d, &m)
		if m.Subject == nil {
			continue // an index that lists the manifest
		}
		if len(m.Layers) != 1 || m.ArtifactType != m.Layers[0].MediaType || m.Subject.Digest != subject.Digest {
			t.Errorf("attached to %s: found %+v", subject.Digest, m)
		}
		data, err := content.FetchAll(t.Context(), store, m.Layers[0])
		if err != nil {
			t.Fatal(err)
		}
		found[m.ArtifactType] = string(data)
	}
	return found
}

func fetch(t *testing.T, store *oci.ReadOnlyStore, d ocispec.Descriptor, to any) {
	t.Helper()
	data, err := content.FetchAll(t.Context(), store, d)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, to); err != nil {
		t.Fatal(err)
	}
}

func opened(t *testing.T, r Release, file string) (*oci.ReadOnlyStore, ocispec.Descriptor) {
	t.Helper()
	store, err := oci.NewFromTar(t.Context(), filepath.Join(r.Out, file))
	if err != nil {
		t.Fatal(err)
	}
	root, err := store.Resolve(t.Context(), r.tag())
	if err != nil {
		t.Fatal(err)
	}
	return store, root
}

// checkStatement checks a statement with the library of in-toto, and returns its subjects.
func checkStatement(t *testing.T, r Release, text []byte) map[string]string {
	t.Helper()
	var s intoto.Statement
	if err := protojson.Unmarshal(text, &s); err != nil {
		t.Fatal(err)
	}
	predicate, err := protojson.Marshal(s.Predicate)
	if err != nil {
		t.Fatal(err)
	}
	var p provenance.Provenance
	if err := protojson.Unmarshal(predicate, &p); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(s.Validate(), p.Validate()); err != nil || s.PredicateType != "https://slsa.dev/provenance/v1" {
		t.Errorf("statement of type %s: %v", s.PredicateType, err)
	}
	want := map[string]any{"version": r.Version, "registry": r.Registry, "url": r.URL}
	if diff := cmp.Diff(want, p.BuildDefinition.ExternalParameters.AsMap()); diff != "" {
		t.Errorf("parameters (-want +got):\n%s", diff)
	}
	if got := p.BuildDefinition.ResolvedDependencies[0].Digest["gitCommit"]; got != r.Revision {
		t.Errorf("commit %q, want %q", got, r.Revision)
	}
	subjects := make(map[string]string)
	for _, s := range s.Subject {
		subjects[s.Name] = s.Digest["sha256"]
	}
	return subjects
}

// An image is one index. Each manifest in it has its bill of materials, and the index has its provenance.
func TestImages(t *testing.T) {
	r := example(t)
	made(t, r)
	for _, image := range images {
		store, root := opened(t, r, image.name+"_1.2.3-dev+abc_image.tar")
		var index ocispec.Index
		fetch(t, store, root, &index)
		var arches []string
		for _, m := range index.Manifests {
			arches = append(arches, m.Platform.Architecture)
			bill := `{"bomFormat":"CycloneDX","image":"` + image.name + m.Platform.Architecture + `"}`
			if diff := cmp.Diff(map[string]string{"application/vnd.cyclonedx+json": bill}, referrers(t, store, m)); diff != "" {
				t.Errorf("%s %s: attached (-want +got):\n%s", image.name, m.Platform.Architecture, diff)
			}
			var manifest ocispec.Manifest
			fetch(t, store, m, &manifest)
			layer, err := content.FetchAll(t.Context(), store, manifest.Layers[0])
			if err != nil || string(layer) != "layer "+image.name+m.Platform.Architecture {
				t.Errorf("%s %s: layer %q, %v", image.name, m.Platform.Architecture, layer, err)
			}
		}
		if diff := cmp.Diff([]string{"amd64", "arm64"}, arches); diff != "" {
			t.Errorf("%s: architectures (-want +got):\n%s", image.name, diff)
		}
		if index.Annotations["org.opencontainers.image.version"] != r.Version || index.Annotations["org.opencontainers.image.revision"] != r.Revision {
			t.Errorf("%s: annotations %v", image.name, index.Annotations)
		}
		found := referrers(t, store, root)
		want := map[string]string{image.name: root.Digest.Encoded()}
		if diff := cmp.Diff(want, checkStatement(t, r, []byte(found["application/vnd.in-toto+json"]))); diff != "" || len(found) != 1 {
			t.Errorf("%s: subjects of %d statements (-want +got):\n%s", image.name, len(found), diff)
		}
		// containerd imports every entry that has a name. Only the index has one.
		var entries ocispec.Index
		names := make(map[string]any)
		parse(t, layoutFile(t, filepath.Join(r.Out, image.name+"_1.2.3-dev+abc_image.tar"), "index.json"), &entries)
		for _, m := range entries.Manifests {
			if name := m.Annotations["io.containerd.image.name"]; name != "" {
				names[name] = m.Digest
			}
		}
		if diff := cmp.Diff(map[string]any{"registry.example.com/fpga/" + image.name + ":1.2.3-dev_abc": root.Digest}, names); diff != "" || entries.Manifests[0].Digest != root.Digest {
			t.Errorf("%s: names for containerd (-want +got):\n%s", image.name, diff)
		}
	}
}

// Helm reads the chart in the layout, which is the chart of the release.
func TestChartArtifact(t *testing.T) {
	r := example(t)
	made(t, r)
	store, root := opened(t, r, "accelerator-operator_1.2.3-dev+abc_chart.tar")
	var m ocispec.Manifest
	fetch(t, store, root, &m)
	data, err := content.FetchAll(t.Context(), store, m.Layers[0])
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(data, read(t, filepath.Join(r.Out, "accelerator-operator-1.2.3-dev+abc.tgz"))) {
		t.Error("the layout has another chart than the release")
	}
	chart, err := loader.LoadArchive(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	if m.Config.MediaType != "application/vnd.cncf.helm.config.v1+json" || m.Layers[0].MediaType != "application/vnd.cncf.helm.chart.content.v1.tar+gzip" || chart.Metadata.Version != r.Version {
		t.Errorf("manifest %+v, version %s", m, chart.Metadata.Version)
	}
}

// The packaged charts have the version, the registry of the images, and the annotations of Artifact Hub.
func TestChart(t *testing.T) {
	for _, test := range []struct{ registry, image, name string }{
		{"registry.example.com/fpga", "registry.example.com/fpga/accelerator-device-plugin:1.2.3-dev_abc", "registry.example.com/fpga/accelerator-dra-driver"},
		{"", "accelerator-device-plugin:1.2.3-dev_abc", "accelerator-dra-driver"},
	} {
		r := example(t)
		r.Registry = test.registry
		chart, err := r.chart("accelerator-device-plugin")
		if err != nil {
			t.Fatal(err)
		}
		if chart.Metadata.Version != r.Version || chart.Metadata.AppVersion != r.Version {
			t.Errorf("version %s, appVersion %s", chart.Metadata.Version, chart.Metadata.AppVersion)
		}
		var images []struct{ Name, Image string }
		parse(t, []byte(chart.Metadata.Annotations["artifacthub.io/images"]), &images)
		if len(images) != 3 || images[0].Image != test.image {
			t.Errorf("annotation with the images: %+v", images)
		}
		var changes []struct{ Kind, Description string }
		parse(t, []byte(chart.Metadata.Annotations["artifacthub.io/changes"]), &changes)
		allowed := slices.Collect(maps.Values(kinds))
		for _, c := range changes {
			if !slices.Contains(allowed, c.Kind) || c.Description == "" || strings.Contains(c.Description, "](") {
				t.Errorf("change %+v", c)
			}
		}
		var values struct {
			DRA struct{ Image struct{ Repository string } }
		}
		for _, f := range chart.Raw {
			if f.Name == "values.yaml" {
				parse(t, f.Data, &values)
			}
		}
		if values.DRA.Image.Repository != test.name {
			t.Errorf("repository %q, want %q", values.DRA.Image.Repository, test.name)
		}
	}
}

// A release contains each image that a chart names.
func TestImagesOfCharts(t *testing.T) {
	released := make(map[string]bool)
	for _, image := range images {
		released[image.name] = true
	}
	for _, name := range []string{"accelerator-device-plugin", "accelerator-operator"} {
		chart, err := example(t).chart(name)
		if err != nil {
			t.Fatal(err)
		}
		var named []struct{ Name string }
		parse(t, []byte(chart.Metadata.Annotations["artifacthub.io/images"]), &named)
		for _, image := range named {
			if !released[image.Name] {
				t.Errorf("chart %s: found image %s, want one of the release: %v", name, image.Name, slices.Sorted(maps.Keys(released)))
			}
		}
	}
}

// SHA256SUMS lists every other file, and the provenance every file before it.
func TestSums(t *testing.T) {
	r := example(t)
	made(t, r)
	sums := make(map[string]string)
	for line := range strings.Lines(string(read(t, filepath.Join(r.Out, "SHA256SUMS")))) {
		hash, name, _ := strings.Cut(strings.TrimSpace(line), "  ")
		sums[name] = hash
	}
	want := make(map[string]string)
	entries, err := os.ReadDir(r.Out)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if e.Name() != "SHA256SUMS" {
			want[e.Name()] = sum(read(t, filepath.Join(r.Out, e.Name())))
		}
	}
	if diff := cmp.Diff(want, sums); diff != "" || len(want) != 13 {
		t.Errorf("%d files (-want +got):\n%s", len(want), diff)
	}
	delete(want, "provenance.intoto.json")
	if diff := cmp.Diff(want, checkStatement(t, r, read(t, filepath.Join(r.Out, "provenance.intoto.json")))); diff != "" {
		t.Errorf("subjects (-want +got):\n%s", diff)
	}
}

// The same commit results in the same bytes, even in another directory with files of other times.
func TestReproducible(t *testing.T) {
	var all []string
	for range 3 { // a random order of two entries is found in most runs, of dozens in all
		r := example(t)
		tree := t.TempDir()
		if err := os.CopyFS(filepath.Join(tree, "deploy/helm"), os.DirFS("../../deploy/helm")); err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(tree, "CHANGELOG.md"), string(read(t, "../../CHANGELOG.md")))
		at := time.Unix(int64(1_000_000_000+len(all)), 0)
		err := filepath.WalkDir(tree, func(path string, _ fs.DirEntry, _ error) error { return os.Chtimes(path, at, at) })
		if err != nil {
			t.Fatal(err)
		}
		r.Tree = tree
		made(t, r)
		all = append(all, string(read(t, filepath.Join(r.Out, "SHA256SUMS"))))
	}
	for _, other := range all[1:] {
		if diff := cmp.Diff(all[0], other); diff != "" {
			t.Errorf("SHA256SUMS (-first +other):\n%s", diff)
		}
	}
}

const changelog = `# Changelog

## [Unreleased]

### Added

- One thing ([its page](docs/a.md)). It does more.
- Two
  things.

- After an empty line.

### Upgrade notes

- Do ` + "`this`" + `.

## [0.2.0] - 2026-11-22

### Fixed

- A fault.
`

func TestChanges(t *testing.T) {
	r := Release{Version: "0.3.0-dev+abc", Tree: t.TempDir()}
	write(t, filepath.Join(r.Tree, "CHANGELOG.md"), changelog)
	unreleased := []Section{
		{"Added", []string{"One thing ([its page](docs/a.md)). It does more.", "Two\n  things.", "After an empty line."}},
		{"Upgrade notes", []string{"Do `this`."}},
	}
	for version, want := range map[string][]Section{
		"0.3.0-dev+abc": unreleased, "0.3.0-rc.1": unreleased, "0.2.0+dirty": unreleased,
		"0.2.0": {{"Fixed", []string{"A fault."}}},
	} {
		r.Version = version
		got, err := r.changes()
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("%s: %v (-want +got):\n%s", version, err, diff)
		}
	}
	r.Version = "0.3.0"
	if _, err := r.changes(); err == nil || !strings.Contains(err.Error(), "found no heading of 0.3.0, want `## [0.3.0] - YEAR-MONTH-DAY`") {
		t.Errorf("no heading: %v", err)
	}
	if got := summary(unreleased[0].Entries[0]); got != "One thing (its page)." {
		t.Errorf("summary %q", got)
	}
}

// The release notes begin with what an upgrade needs.
func TestNotes(t *testing.T) {
	r := Release{Version: "0.3.0-rc.1", Revision: "abc", Tree: t.TempDir()}
	write(t, filepath.Join(r.Tree, "CHANGELOG.md"), changelog)
	got, err := r.notes([]artifact{{"charts/x", "sha256:0"}})
	if err != nil {
		t.Fatal(err)
	}
	var last int
	for _, part := range []string{"# accelerator-device-plugin 0.3.0-rc.1\n", "## Upgrade notes\n\n- Do", "| `charts/x` | `sha256:0` |", "## Added\n\n- One thing"} {
		at := strings.Index(string(got), part)
		if at < last {
			t.Errorf("%q: found at %d, want it after %d:\n%s", part, at, last, got)
		}
		last = at
	}
}

// The tree has the version of the next release, which the changelog does not list as released.
func TestTree(t *testing.T) {
	version := strings.TrimSpace(string(read(t, "../../VERSION")))
	next, ok := strings.CutSuffix(version, "-dev")
	if !ok || !versions.MatchString(version) {
		t.Errorf("VERSION: found %q, want the version of the next release with -dev", version)
	}
	if strings.Contains(string(read(t, "../../CHANGELOG.md")), "\n## ["+next+"]") {
		t.Errorf("VERSION: found %s, want a version after it: CHANGELOG.md says that it is released", version)
	}
}

func TestCheck(t *testing.T) {
	r := Release{Tree: t.TempDir()}
	write(t, filepath.Join(r.Tree, "CHANGELOG.md"), changelog)
	write(t, filepath.Join(r.Tree, "VERSION"), "0.3.0-dev\n")
	write(t, filepath.Join(r.Tree, "tools/version.sh"), string(read(t, "../version.sh")))
	if err := os.Chmod(filepath.Join(r.Tree, "tools/version.sh"), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("GIT_CONFIG_GLOBAL", "/dev/null")
	git := func(args ...string) {
		t.Helper()
		if _, err := r.run("git", append([]string{"-c", "user.name=a", "-c", "user.email=a@example.com"}, args...)...); err != nil {
			t.Fatal(err)
		}
	}
	git("init", "-q")
	git("add", ".")
	git("commit", "-qm", "first")
	check := func(version, registry, url, want string) {
		t.Helper()
		r.Version, r.Registry, r.URL = version, registry, url
		err := r.Check()
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s %s %s: error %v, want %q", version, registry, url, err, want)
		}
	}
	check("0.3.0-rc.1", "", "", "")
	check("0.2.0", "localhost:5000/fpga", "https://example.com", "")
	check("0.3.0", "", "", "found no heading of 0.3.0")
	check("v0.3.0", "", "", `VERSION: found "v0.3.0"`)
	check("1.0", "", "", `VERSION: found "1.0"`)
	check("0.2.0", "https://registry.example.com", "", "REGISTRY: found")
	check("0.2.0", "registry.example.com/", "", "REGISTRY: found")
	check("0.2.0", "a$(b)", "", "REGISTRY: found")
	check("0.2.0", "", "http://example.com", "URL: found")
	t.Setenv("GOEXPERIMENT", "jsonv2")
	check("0.2.0", "", "", `GOEXPERIMENT: found "jsonv2", want none`)
	t.Setenv("GOEXPERIMENT", "")
	git("tag", "v0.2.0")
	check("0.2.0", "", "", "")
	check("0.3.0-rc.1", "", "", "VERSION: found 0.3.0-rc.1, want 0.2.0: HEAD has the tag of that release")
	write(t, filepath.Join(r.Tree, "new"), "")
	check("0.2.0", "", "", `found 1 changed or untracked files, such as "new", want none`)
}

// layoutFile returns a file of a layout.
func layoutFile(t *testing.T, path, name string) []byte {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for r := tar.NewReader(file); ; {
		h, err := r.Next()
		if err != nil {
			t.Fatalf("%s: %s: %v", path, name, err)
		}
		if h.Name == name {
			data, err := io.ReadAll(r)
			if err != nil {
				t.Fatal(err)
			}
			return data
		}
	}
}
