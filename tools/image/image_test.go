package main

import (
	"archive/tar"
	"bytes"
	"debug/buildinfo"
	"errors"
	"io"
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

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/validate"

	"b-com.com/accelerator-device-plugin/test/compare"
	"b-com.com/accelerator-device-plugin/test/must"
)

var example = Image{
	Name: "accelerator-device-plugin", Description: "Kubernetes device plugin for FPGA cards", Licence: "GPL-3.0-only",
	Entrypoint: "/usr/bin/accelerator-device-plugin",
	Version:    "1.2.3-dev+abc", Revision: "0123456789", Created: time.Unix(1_800_000_000, 0).UTC(), Arch: "arm64",
	Files: Rootfs(binaries, []byte("source"), map[string][]byte{"b/LICENSE": []byte("text"), "a/c/NOTICE": []byte("more")}),
}

var binaries = []Binary{{Name: "accelerator-device-plugin", Data: []byte("binary")}, {Name: "accelerator-fpga", Data: []byte("tool")}}

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
		must.Succeed(t, err)
		names = append(names, h.Name)
		if h.Uid != 0 || h.Gid != 0 || !h.ModTime.Equal(example.Created) {
			t.Errorf("%s: owner %d:%d, time %s; want root and the time of the commit", h.Name, h.Uid, h.Gid, h.ModTime)
		}
		switch h.Typeflag {
		case tar.TypeSymlink:
			files[h.Name] = File{Mode: h.FileInfo().Mode(), Data: []byte(h.Linkname)}
		case tar.TypeReg:
			files[h.Name] = File{Mode: h.FileInfo().Mode(), Data: must.Value(io.ReadAll(archive))(t)}
		}
	}
}

// Readers of OCI layouts and of `docker save` read the same valid image. The index contains the name that the image has
// in the chart. containerd and the kubelet refer to the image by this name.
func TestArchive(t *testing.T) {
	archive, digest, err := example.Archive()
	must.Succeed(t, err)
	unpacked, _ := untar(t, bytes.NewReader(archive))
	dir, file := filepath.Join(t.TempDir(), "layout"), filepath.Join(t.TempDir(), "image.tar")
	must.Succeed(t, unpacked.Write(dir), os.WriteFile(file, archive, 0o600))
	index := must.Value(layout.ImageIndexFromPath(dir))(t)
	manifests := must.Value(index.IndexManifest())(t).DeepCopy().Manifests
	manifests[0].Size = 0 // validated by reading it
	compare.Values(t, "index", []v1.Descriptor{{
		MediaType: "application/vnd.oci.image.manifest.v1+json", Digest: digest,
		Platform: &v1.Platform{OS: "linux", Architecture: "arm64"},
		Annotations: map[string]string{
			"org.opencontainers.image.ref.name": "1.2.3-dev_abc",
			"io.containerd.image.name":          "docker.io/library/accelerator-device-plugin:1.2.3-dev_abc",
		},
	}}, manifests)

	oci := must.Value(index.Image(digest))(t)
	saved := must.Value(tarball.ImageFromPath(file, nil))(t)
	for name, img := range map[string]v1.Image{"OCI": oci, "docker": saved} {
		compare.NoError(t, name, validate.Image(img))
		got := must.Value(img.ConfigFile())(t).DeepCopy()
		compare.Equal(t, name+": layers", 1, len(got.RootFS.DiffIDs))
		got.RootFS = v1.RootFS{}
		created := v1.Time{Time: example.Created}
		want := &v1.ConfigFile{
			OS: "linux", Architecture: "arm64", Created: created,
			History: []v1.History{{Created: created, CreatedBy: "make image"}},
			Config:  v1.Config{Entrypoint: []string{example.Entrypoint}, Env: []string{"PATH=/usr/bin"}, Labels: example.labels()},
		}
		compare.Values(t, name+": config", want, got)
		files, names := untar(t, mutate.Extract(img))
		compare.Values(t, name+": files", example.Files, files)
		entries := []string{"licenses", "licenses/a", "licenses/a/c", "licenses/a/c/NOTICE", "licenses/b", "licenses/b/LICENSE", "usr", "usr/bin", example.Entrypoint[1:], "usr/bin/accelerator-fpga", "usr/src", SourceArchive[1:]}
		slices.Sort(names)
		compare.Values(t, name+": names", entries, names)
	}
}

// An archive ends with two empty blocks. The command tar needs them, Go's reader does not.
func TestEndOfTar(t *testing.T) {
	archive := must.Value(example.Files.Tar(example.Created))(t)
	if end := make([]byte, 2*512); !bytes.HasSuffix(archive, end) {
		t.Error("the archive does not end with two empty blocks")
	}
}

// The archive for users contains the programs, which can be run, their source, the licences and further files.
func TestUserArchive(t *testing.T) {
	dir := t.TempDir()
	unit, out := filepath.Join(dir, "x.service"), filepath.Join(dir, "out.tar.gz")
	must.Succeed(t, os.WriteFile(unit, []byte("unit"), 0o600))
	a := arguments{userArchive: out, files: []string{unit}}
	must.Succeed(t, a.writeUserArchive(binaries, []byte("source"), map[string][]byte{"b/LICENSE": []byte("text")}, example.Created))
	want := Files{
		"accelerator-device-plugin": {Mode: 0o755, Data: []byte("binary")}, "accelerator-fpga": {Mode: 0o755, Data: []byte("tool")},
		"source.tar.gz": {Mode: 0o644, Data: []byte("source")}, "licenses/b/LICENSE": {Mode: 0o644, Data: []byte("text")}, "x.service": {Mode: 0o644, Data: []byte("unit")},
	}
	compare.Values(t, "files", want, sourceFiles(t, must.Value(os.ReadFile(out))(t)))
}

func TestLicences(t *testing.T) {
	out := must.Value(command(tree, "go", "list", "-m", "-f", "{{.Version}}", "github.com/pilebones/go-udev"))(t)
	version := strings.TrimSpace(string(out))
	info := &buildinfo.BuildInfo{GoVersion: runtime.Version(), Main: debug.Module{Path: "b-com.com/accelerator-device-plugin"},
		Deps: []*debug.Module{{Path: "github.com/pilebones/go-udev", Version: version}}}
	got := must.Value(Licences(tree, info))(t)
	for file, text := range map[string]string{
		"accelerator-device-plugin/LICENSE":                    "Apache License",
		"accelerator-device-plugin/NOTICE":                     "go-udev",
		"github.com/pilebones/go-udev@" + version + "/LICENSE": "GNU GENERAL PUBLIC LICENSE",
		"go@" + runtime.Version()[2:] + "/LICENSE":             "Copyright 2009 The Go Authors",
	} {
		compare.Contains(t, file, text, string(got[file]))
	}
	info.Deps[0].Version = "v0.0.1"
	compare.Error(t, "binary of another version", "want the version that the binary was built with", compare.ErrorOf(Licences(tree, info)))
	compare.Error(t, "module without licence", "found no licence", compare.ErrorOf(Licences(t.TempDir(), &buildinfo.BuildInfo{})))
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
	return must.Value(buildinfo.ReadFile(binary))(t)
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
			licences := must.Value(Licences(tree, info))(t)
			modules := make(map[string]bool)
			for where := range licences {
				modules[path.Dir(where)] = true
			}
			// The modules are this project, Go, and the dependencies without the modules of this project.
			if len(modules) != len(info.Deps)+1 || !modules[project] {
				t.Errorf("licences of %d modules, want %d, with %s", len(modules), len(info.Deps)+1, project)
			}
			where := copyleft(licences)
			module, _, _ := strings.Cut(where, "@")
			compare.Equal(t, "module under a GNU licence", tt.copyleft, module)
			delete(licences, where)
			compare.Equal(t, "another one", "", copyleft(licences))
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
	got := must.Value(SBOM([]Binary{{"x", []byte("binary"), info}, {"tool", []byte("tool"), &tool}}, "v1"))(t)
	want := must.Value(os.ReadFile("testdata/sbom.cdx.json"))(t)
	compare.Values(t, "bill", string(want), string(got))
}

// The Dockerfile builds the same image from the same files.
func TestDockerfile(t *testing.T) {
	text := string(must.Value(os.ReadFile("../../deploy/Dockerfile"))(t))
	want := []string{"FROM scratch", "COPY root_${TARGETARCH}/ /", "ENV PATH=/usr/bin", `ENTRYPOINT ["` + example.Entrypoint + `"]`}
	for _, line := range want {
		compare.Contains(t, "Dockerfile", "\n"+line+"\n", text)
	}
	labels := example.labels()
	for _, m := range regexp.MustCompile(`(org\.opencontainers\.image\.\w+)="([^"]*)"`).FindAllStringSubmatch(text, -1) {
		compare.Equal(t, "label "+m[1], labels[m[1]], strings.ReplaceAll(m[2], "${VERSION}", example.Version))
	}
}
