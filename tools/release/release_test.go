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

	provenance "github.com/in-toto/attestation/go/predicates/provenance/v1"
	intoto "github.com/in-toto/attestation/go/v1"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"google.golang.org/protobuf/encoding/protojson"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"oras.land/oras-go/v2"
	"oras.land/oras-go/v2/content"
	"oras.land/oras-go/v2/content/oci"
	"sigs.k8s.io/yaml"

	"b-com.com/accelerator-device-plugin/test/compare"
	"b-com.com/accelerator-device-plugin/test/must"
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
	must.Succeed(t, os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644))
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	return must.Value(os.ReadFile(path))(t)
}

func parse(t *testing.T, data []byte, to any) {
	t.Helper()
	must.Succeed(t, yaml.Unmarshal(data, to))
}

// made writes archives and bills of materials as make image does, with one small layer, and packs the release.
func made(t *testing.T, r Release) {
	t.Helper()
	ctx := t.Context()
	for _, image := range images {
		for _, arch := range platforms {
			base := filepath.Join(r.Dist, fmt.Sprintf("%s_%s_%s", image.name, r.Version, arch))
			write(t, base+".cdx.json", `{"bomFormat":"CycloneDX","image":"`+image.name+arch+`"}`)
			l := must.Value(r.layout(ctx))(t)
			defer os.RemoveAll(l.dir)
			config := must.Value(l.push(ctx, ocispec.MediaTypeImageConfig, []byte(`{"architecture":"`+arch+`","os":"linux","name":"`+image.name+`"}`)))(t)
			layer := must.Value(l.push(ctx, ocispec.MediaTypeImageLayer, []byte("layer "+image.name+arch)))(t)
			manifest := must.Value(oras.PackManifest(ctx, l.store, oras.PackManifestVersion1_1, "", oras.PackManifestOptions{
				ConfigDescriptor: &config, Layers: []ocispec.Descriptor{layer},
				ManifestAnnotations: map[string]string{ocispec.AnnotationCreated: r.Created.Format(time.RFC3339)},
			}))(t)
			must.Succeed(t, l.Write(ctx, manifest, "docker.io/library/"+image.name+":"+r.tag(), base+".tar"))
		}
	}
	write(t, filepath.Join(r.Out, "accelerator-fpga.txt"), "a program")
	for _, chart := range []string{"accelerator-device-plugin", "accelerator-operator"} {
		must.Succeed(t, r.WriteChart(chart))
	}
	must.Succeed(t, r.Pack(ctx))
}

// referrers returns what is attached to a manifest, by media type.
func referrers(t *testing.T, store *oci.ReadOnlyStore, subject ocispec.Descriptor) map[string]string {
	t.Helper()
	found := make(map[string]string)
	for _, d := range must.Value(store.Predecessors(t.Context(), subject))(t) {
		var m ocispec.Manifest
		fetch(t, store, d, &m)
		if m.Subject == nil {
			continue // an index that lists the manifest
		}
		if len(m.Layers) != 1 || m.ArtifactType != m.Layers[0].MediaType || m.Subject.Digest != subject.Digest {
			t.Errorf("attached to %s: found %+v", subject.Digest, m)
		}
		found[m.ArtifactType] = string(must.Value(content.FetchAll(t.Context(), store, m.Layers[0]))(t))
	}
	return found
}

func fetch(t *testing.T, store *oci.ReadOnlyStore, d ocispec.Descriptor, to any) {
	t.Helper()
	must.Succeed(t, json.Unmarshal(must.Value(content.FetchAll(t.Context(), store, d))(t), to))
}

func opened(t *testing.T, r Release, file string) (*oci.ReadOnlyStore, ocispec.Descriptor) {
	t.Helper()
	store := must.Value(oci.NewFromTar(t.Context(), filepath.Join(r.Out, file)))(t)
	return store, must.Value(store.Resolve(t.Context(), r.tag()))(t)
}

// checkStatement checks a statement with the library of in-toto, and returns its subjects.
func checkStatement(t *testing.T, r Release, text []byte) map[string]string {
	t.Helper()
	var s intoto.Statement
	must.Succeed(t, protojson.Unmarshal(text, &s))
	var p provenance.Provenance
	must.Succeed(t, protojson.Unmarshal(must.Value(protojson.Marshal(s.Predicate))(t), &p))
	compare.NoError(t, "statement", errors.Join(s.Validate(), p.Validate()))
	compare.Equal(t, "type of the statement", "https://slsa.dev/provenance/v1", s.PredicateType)
	want := map[string]any{"version": r.Version, "registry": r.Registry, "url": r.URL}
	compare.Values(t, "parameters", want, p.BuildDefinition.ExternalParameters.AsMap())
	compare.Equal(t, "commit", r.Revision, p.BuildDefinition.ResolvedDependencies[0].Digest["gitCommit"])
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
			compare.Values(t, image.name+": attached", map[string]string{"application/vnd.cyclonedx+json": bill}, referrers(t, store, m))
			var manifest ocispec.Manifest
			fetch(t, store, m, &manifest)
			layer := must.Value(content.FetchAll(t.Context(), store, manifest.Layers[0]))(t)
			compare.Equal(t, "layer", "layer "+image.name+m.Platform.Architecture, string(layer))
		}
		compare.Values(t, image.name+": architectures", []string{"amd64", "arm64"}, arches)
		compare.Equal(t, image.name+": version", r.Version, index.Annotations["org.opencontainers.image.version"])
		compare.Equal(t, image.name+": revision", r.Revision, index.Annotations["org.opencontainers.image.revision"])
		found := referrers(t, store, root)
		compare.Equal(t, image.name+": statements", 1, len(found))
		want := map[string]string{image.name: root.Digest.Encoded()}
		compare.Values(t, image.name+": subjects", want, checkStatement(t, r, []byte(found["application/vnd.in-toto+json"])))
		// containerd imports every entry that has a name. Only the index has one.
		var entries ocispec.Index
		names := make(map[string]any)
		parse(t, layoutFile(t, filepath.Join(r.Out, image.name+"_1.2.3-dev+abc_image.tar"), "index.json"), &entries)
		for _, m := range entries.Manifests {
			if name := m.Annotations["io.containerd.image.name"]; name != "" {
				names[name] = m.Digest
			}
		}
		compare.Values(t, "names for containerd", map[string]any{"registry.example.com/fpga/" + image.name + ":1.2.3-dev_abc": root.Digest}, names)
		compare.Equal(t, image.name+": first entry", root.Digest, entries.Manifests[0].Digest)
	}
}

// Helm reads the chart in the layout, which is the chart of the release.
func TestChartArtifact(t *testing.T) {
	r := example(t)
	made(t, r)
	store, root := opened(t, r, "accelerator-operator_1.2.3-dev+abc_chart.tar")
	var m ocispec.Manifest
	fetch(t, store, root, &m)
	data := must.Value(content.FetchAll(t.Context(), store, m.Layers[0]))(t)
	if !bytes.Equal(data, read(t, filepath.Join(r.Out, "accelerator-operator-1.2.3-dev+abc.tgz"))) {
		t.Error("the layout has another chart than the release")
	}
	chart := must.Value(loader.LoadArchive(bytes.NewReader(data)))(t)
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
		chart := must.Value(r.chart("accelerator-device-plugin"))(t)
		compare.Equal(t, "version", r.Version, chart.Metadata.Version)
		compare.Equal(t, "appVersion", r.Version, chart.Metadata.AppVersion)
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
		compare.Equal(t, "repository", test.name, values.DRA.Image.Repository)
	}
}

// A release contains each image that a chart names.
func TestImagesOfCharts(t *testing.T) {
	for _, name := range []string{"accelerator-device-plugin", "accelerator-operator"} {
		chart := must.Value(example(t).chart(name))(t)
		var named []struct{ Name string }
		parse(t, []byte(chart.Metadata.Annotations["artifacthub.io/images"]), &named)
		for _, image := range named {
			if !slices.ContainsFunc(images, func(i struct{ name, description string }) bool { return i.name == image.Name }) {
				t.Errorf("chart %s: found image %s, want one of the release", name, image.Name)
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
	for _, e := range must.Value(os.ReadDir(r.Out))(t) {
		if e.Name() != "SHA256SUMS" {
			want[e.Name()] = sum(read(t, filepath.Join(r.Out, e.Name())))
		}
	}
	compare.Values(t, "sums", want, sums)
	compare.Equal(t, "files", 13, len(want))
	delete(want, "provenance.intoto.json")
	compare.Values(t, "subjects", want, checkStatement(t, r, read(t, filepath.Join(r.Out, "provenance.intoto.json"))))
}

// The same commit results in the same bytes, even in another directory with files of other times.
func TestReproducible(t *testing.T) {
	var all []string
	for range 3 { // a random order of two entries is found in most runs, of dozens in all
		r := example(t)
		tree := t.TempDir()
		must.Succeed(t, os.CopyFS(filepath.Join(tree, "deploy/helm"), os.DirFS("../../deploy/helm")))
		write(t, filepath.Join(tree, "CHANGELOG.md"), string(read(t, "../../CHANGELOG.md")))
		at := time.Unix(int64(1_000_000_000+len(all)), 0)
		must.Succeed(t, filepath.WalkDir(tree, func(path string, _ fs.DirEntry, _ error) error { return os.Chtimes(path, at, at) }))
		r.Tree = tree
		made(t, r)
		all = append(all, string(read(t, filepath.Join(r.Out, "SHA256SUMS"))))
	}
	compare.Values(t, "SHA256SUMS", slices.Repeat(all[:1], 3), all)
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
		compare.Values(t, version, want, must.Value(r.changes())(t))
	}
	r.Version = "0.3.0"
	compare.Error(t, "no heading", "found no heading of 0.3.0, want `## [0.3.0] - YEAR-MONTH-DAY`", compare.ErrorOf(r.changes()))
	compare.Equal(t, "summary", "One thing (its page).", summary(unreleased[0].Entries[0]))
}

// The release notes begin with what an upgrade needs.
func TestNotes(t *testing.T) {
	r := Release{Version: "0.3.0-rc.1", Revision: "abc", Tree: t.TempDir()}
	write(t, filepath.Join(r.Tree, "CHANGELOG.md"), changelog)
	got := must.Value(r.notes([]artifact{{"charts/x", "sha256:0"}}))(t)
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
	must.Succeed(t, os.Chmod(filepath.Join(r.Tree, "tools/version.sh"), 0o755))
	t.Setenv("GIT_CONFIG_GLOBAL", "/dev/null")
	git := func(args ...string) {
		t.Helper()
		must.Value(r.run("git", append([]string{"-c", "user.name=a", "-c", "user.email=a@example.com"}, args...)...))(t)
	}
	git("init", "-q")
	git("add", ".")
	git("commit", "-qm", "first")
	check := func(version, registry, url, want string) {
		t.Helper()
		r.Version, r.Registry, r.URL = version, registry, url
		compare.Outcome(t, version+" "+registry+" "+url, want, r.Check())
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
	file := must.Value(os.Open(path))(t)
	defer file.Close()
	for r := tar.NewReader(file); ; {
		if must.Value(r.Next())(t).Name == name {
			return must.Value(io.ReadAll(r))(t)
		}
	}
}
