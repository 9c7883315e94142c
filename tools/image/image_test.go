package main

import (
	"archive/tar"
	"bytes"
	"debug/buildinfo"
	"errors"
	"io"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/validate"
)

var example = Image{
	Name: "accelerator-device-plugin", Description: "Kubernetes device plugin for FPGA cards", Licence: "GPL-3.0-only",
	Entrypoint: "/usr/bin/accelerator-device-plugin",
	Version:    "1.2.3-dev+abc", Revision: "0123456789", Created: time.Unix(1_800_000_000, 0).UTC(), Arch: "arm64",
	Files: Rootfs([]Binary{{Name: "accelerator-device-plugin", Data: []byte("binary")}, {Name: "accelerator-fpga", Data: []byte("tool")}}, []byte("source"), map[string][]byte{"b/LICENSE": []byte("text"), "a/c/NOTICE": []byte("more")}),
}

// untar returns the files of an archive, and their names in the order of the archive.
func untar(t *testing.T, r io.Reader) (Files, []string) {
	t.Helper()
	files := make(Files)
	var names []string
	for archive := tar.NewReader(r); ; {
		h, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return files, names
		}
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, h.Name)
		if h.Uid != 0 || h.Gid != 0 || !h.ModTime.Equal(example.Created) {
			t.Errorf("%s: owner %d:%d, time %s; want root and the time of the commit", h.Name, h.Uid, h.Gid, h.ModTime)
		}
		if h.Typeflag == tar.TypeSymlink {
			files[h.Name] = File{Mode: h.FileInfo().Mode(), Data: []byte(h.Linkname)}
		}
		if h.Typeflag == tar.TypeReg {
			data, err := io.ReadAll(archive)
			if err != nil {
				t.Fatal(err)
			}
			files[h.Name] = File{Mode: h.FileInfo().Mode(), Data: data}
		}
	}
}

// written writes the archive of the example, as a file and unpacked to a directory.
func written(t *testing.T) (dir, file string, digest v1.Hash) {
	t.Helper()
	archive, digest, err := example.Archive()
	if err != nil {
		t.Fatal(err)
	}
	files, _ := untar(t, bytes.NewReader(archive))
	dir, file = filepath.Join(t.TempDir(), "layout"), filepath.Join(t.TempDir(), "image.tar")
	if err := files.Write(dir); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, archive, 0o600); err != nil {
		t.Fatal(err)
	}
	return dir, file, digest
}

// Readers of OCI layouts and of `docker save` read the same valid image.
func TestArchive(t *testing.T) {
	dir, file, digest := written(t)
	index, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		t.Fatal(err)
	}
	oci, err := index.Image(digest)
	if err != nil {
		t.Fatal(err)
	}
	saved, err := tarball.ImageFromPath(file, nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, img := range map[string]v1.Image{"OCI": oci, "docker": saved} {
		if err := validate.Image(img); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		got, err := img.ConfigFile()
		if err != nil {
			t.Fatal(err)
		}
		got = got.DeepCopy()
		if len(got.RootFS.DiffIDs) != 1 {
			t.Errorf("%s: %d layers, want 1", name, len(got.RootFS.DiffIDs))
		}
		got.RootFS = v1.RootFS{}
		created := v1.Time{Time: example.Created}
		want := &v1.ConfigFile{
			OS: "linux", Architecture: "arm64", Created: created,
			History: []v1.History{{Created: created, CreatedBy: "make image"}},
			Config:  v1.Config{Entrypoint: []string{example.Entrypoint}, Env: []string{"PATH=/usr/bin"}, Labels: example.labels()},
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: config (-want +got):\n%s", name, diff)
		}
		files, names := untar(t, mutate.Extract(img))
		if diff := cmp.Diff(example.Files, files); diff != "" {
			t.Errorf("%s: files (-want +got):\n%s", name, diff)
		}
		entries := []string{"licenses", "licenses/a", "licenses/a/c", "licenses/a/c/NOTICE", "licenses/b", "licenses/b/LICENSE", "usr", "usr/bin", example.Entrypoint[1:], "usr/bin/accelerator-fpga", "usr/src", SourceArchive[1:]}
		slices.Sort(names)
		if diff := cmp.Diff(entries, names); diff != "" {
			t.Errorf("%s: names (-want +got):\n%s", name, diff)
		}
	}
}

// The index contains the name that the image has in the chart. containerd and the kubelet refer to the image by this
// name.
func TestIndex(t *testing.T) {
	dir, _, digest := written(t)
	index, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	if len(manifest.Manifests) != 1 {
		t.Fatalf("%d manifests, want 1", len(manifest.Manifests))
	}
	got := manifest.Manifests[0]
	got.Size = 0 // validated by reading it
	want := v1.Descriptor{
		MediaType: "application/vnd.oci.image.manifest.v1+json", Digest: digest,
		Platform: &v1.Platform{OS: "linux", Architecture: "arm64"},
		Annotations: map[string]string{
			"org.opencontainers.image.ref.name": "1.2.3-dev_abc",
			"io.containerd.image.name":          "docker.io/library/accelerator-device-plugin:1.2.3-dev_abc",
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("descriptor (-want +got):\n%s", diff)
	}
}

// An archive ends with two empty blocks. The command tar needs them, Go's reader does not.
func TestEndOfTar(t *testing.T) {
	archive, err := example.Files.Tar(example.Created)
	if err != nil {
		t.Fatal(err)
	}
	if end := make([]byte, 2*512); !bytes.HasSuffix(archive, end) {
		t.Error("the archive does not end with two empty blocks")
	}
}

// The archive for users contains the programs, which can be run, their source, the licences and further files.
func TestUserArchive(t *testing.T) {
	dir := t.TempDir()
	unit, out := filepath.Join(dir, "x.service"), filepath.Join(dir, "out.tar.gz")
	if err := os.WriteFile(unit, []byte("unit"), 0o600); err != nil {
		t.Fatal(err)
	}
	binaries := []Binary{{Name: "accelerator-device-plugin", Data: []byte("binary")}, {Name: "accelerator-fpga", Data: []byte("tool")}}
	a := arguments{userArchive: out, files: []string{unit}}
	if err := a.writeUserArchive(binaries, []byte("source"), map[string][]byte{"b/LICENSE": []byte("text")}, example.Created); err != nil {
		t.Fatal(err)
	}
	archive, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	want := Files{
		"accelerator-device-plugin": {Mode: 0o755, Data: []byte("binary")}, "accelerator-fpga": {Mode: 0o755, Data: []byte("tool")},
		"source.tar.gz": {Mode: 0o644, Data: []byte("source")}, "licenses/b/LICENSE": {Mode: 0o644, Data: []byte("text")}, "x.service": {Mode: 0o644, Data: []byte("unit")},
	}
	if diff := cmp.Diff(want, sourceFiles(t, archive)); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
}

func TestLicences(t *testing.T) {
	const root = "../.."
	out, err := command(root, "go", "list", "-m", "-f", "{{.Version}}", "github.com/pilebones/go-udev")
	if err != nil {
		t.Fatal(err)
	}
	version := strings.TrimSpace(string(out))
	info := &buildinfo.BuildInfo{GoVersion: runtime.Version(), Main: debug.Module{Path: "b-com.com/accelerator-device-plugin"},
		Deps: []*debug.Module{{Path: "github.com/pilebones/go-udev", Version: version}}}
	got, err := Licences(root, info)
	if err != nil {
		t.Fatal(err)
	}
	for file, text := range map[string]string{
		"accelerator-device-plugin/LICENSE":                    "Apache License",
		"accelerator-device-plugin/NOTICE":                     "go-udev",
		"github.com/pilebones/go-udev@" + version + "/LICENSE": "GNU GENERAL PUBLIC LICENSE",
		"go@" + runtime.Version()[2:] + "/LICENSE":             "Copyright 2009 The Go Authors",
	} {
		if !strings.Contains(string(got[file]), text) {
			t.Errorf("%s: want %q in it; found the files %q", file, text, slices.Sorted(maps.Keys(got)))
		}
	}
	info.Deps[0].Version = "v0.0.1"
	if _, err := Licences(root, info); err == nil || !strings.Contains(err.Error(), "want the version that the binary was built with") {
		t.Errorf("binary of another version: %v", err)
	}
	if _, err := Licences(t.TempDir(), &buildinfo.BuildInfo{}); err == nil || !strings.Contains(err.Error(), "found no licence") {
		t.Errorf("module without licence: %v", err)
	}
}

// built builds a program of one of the project's modules, and returns the information about it.
func built(t *testing.T, tree, module, name string, env ...string) *buildinfo.BuildInfo {
	t.Helper()
	binary := filepath.Join(t.TempDir(), name)
	build := exec.Command("go", "build", "-tags", "grpcnotrace", "-trimpath", "-buildvcs=false", "-o", binary, "./cmd/"+name)
	build.Dir, build.Env = filepath.Join(tree, module), append(os.Environ(), append(env, "CGO_ENABLED=0")...)
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v: %s", err, out)
	}
	info, err := buildinfo.ReadFile(binary)
	if err != nil {
		t.Fatal(err)
	}
	return info
}

// The operator's image is under Apache-2.0 as a whole: the binary links no module under a GNU
// licence. The DRA driver links one, go-udev, so its image is under GPL-3.0 as a whole.
func TestCopyleftOfBinaries(t *testing.T) {
	for _, tt := range []struct{ module, name, copyleft string }{
		{"operator", "accelerator-operator", ""},
		{"dra", "accelerator-dra-driver", "github.com/pilebones/go-udev"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			info := built(t, tree, tt.module, tt.name)
			licences, err := Licences(tree, info)
			if err != nil {
				t.Fatal(err)
			}
			modules := make(map[string]bool)
			for where := range licences {
				modules[path.Dir(where)] = true
			}
			// The modules are this project, Go, and the dependencies without the modules of this project.
			if len(modules) != len(info.Deps)+1 || !modules[project] {
				t.Errorf("licences of %d modules, want %d, with %s", len(modules), len(info.Deps)+1, project)
			}
			where := copyleft(licences)
			if module, _, _ := strings.Cut(where, "@"); module != tt.copyleft {
				t.Errorf("the binary links a module under %q, want %q", where, tt.copyleft)
			}
			delete(licences, where)
			if where := copyleft(licences); where != "" {
				t.Errorf("the binary also links a module under %s", where)
			}
		})
	}
}

func TestSBOM(t *testing.T) {
	info := &buildinfo.BuildInfo{
		GoVersion: "go1.26.8", Main: debug.Module{Path: "example.com/x"},
		Deps:     []*debug.Module{{Path: "example.com/y", Version: "v2.0.0+incompatible", Sum: "h1:abc="}},
		Settings: []debug.BuildSetting{{Key: "GOARCH", Value: "arm64"}},
	}
	tool := *info // both binaries link y, which is listed once
	tool.Deps = []*debug.Module{info.Deps[0], {Path: "example.com/z", Version: "v3.0.0"},
		{Path: "example.com/own", Version: "v0.0.0", Replace: &debug.Module{Path: "../", Version: "(devel)"}}} // has the version of the image
	got, err := SBOM([]Binary{{"x", []byte("binary"), info}, {"tool", []byte("tool"), &tool}}, "v1")
	if err != nil {
		t.Fatal(err)
	}
	want, err := os.ReadFile("testdata/sbom.cdx.json")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("bill (-want +got):\n%s", diff)
	}
}

// The Dockerfile builds the same image from the same files.
func TestDockerfile(t *testing.T) {
	text, err := os.ReadFile("../../deploy/Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"FROM scratch", "COPY root_${TARGETARCH}/ /", "ENV PATH=/usr/bin", `ENTRYPOINT ["` + example.Entrypoint + `"]`}
	for _, line := range want {
		if !strings.Contains(string(text), "\n"+line+"\n") {
			t.Errorf("Dockerfile: found no line %q", line)
		}
	}
	labels := example.labels()
	for _, m := range regexp.MustCompile(`(org\.opencontainers\.image\.\w+)="([^"]*)"`).FindAllStringSubmatch(string(text), -1) {
		if value := strings.ReplaceAll(m[2], "${VERSION}", example.Version); labels[m[1]] != value {
			t.Errorf("label %s is %q, want %q", m[1], value, labels[m[1]])
		}
	}
}
