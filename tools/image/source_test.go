package main

import (
	"bytes"
	"compress/gzip"
	"debug/buildinfo"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"b-com.com/accelerator-device-plugin/test/compare"
	"b-com.com/accelerator-device-plugin/test/must"
)

const tree = "../.."

// source returns the source archive of an image with binaries of these modules.
func source(t *testing.T, modules ...string) []byte {
	t.Helper()
	return must.Value(Source(tree, modules, example.Version, example.Created))(t)
}

// sourceFiles returns the files of a source archive.
func sourceFiles(t *testing.T, archive []byte) Files {
	t.Helper()
	files, _ := untar(t, must.Value(gzip.NewReader(bytes.NewReader(archive)))(t))
	return files
}

// The archive contains the project's files unchanged, including links. It contains each file of the go-udev package and
// its licence, which requires the source to be passed on.
func TestSource(t *testing.T) {
	first := source(t, ".")
	files := sourceFiles(t, first)
	const top = "accelerator-device-plugin-1.2.3-dev+abc/"
	for _, name := range []string{"go.mod", "go.sum", "Makefile", "LICENSE", "NOTICE", "watcher/netlink_linux.go", "cmd/accelerator-device-plugin/main.go"} {
		compare.Values(t, name, File{Mode: 0o644, Data: must.Value(os.ReadFile(filepath.Join(tree, name)))(t)}, files[top+name])
	}
	compare.Equal(t, "VERSION", "1.2.3-dev+abc\n", string(files[top+"VERSION"].Data))
	compare.Equal(t, "mode of .ci/run", 0o755, files[top+".ci/run"].Mode)
	want := File{Mode: fs.ModeSymlink | 0o777, Data: []byte("../helm/accelerator-device-plugin/files/alerts.yaml")}
	compare.Values(t, "link", want, files[top+"deploy/prometheus/alerts.yaml"])
	for name := range files {
		for _, not := range []string{"bin", "dist", ".git"} {
			if !strings.HasPrefix(name, top) || strings.HasPrefix(name, top+not+"/") {
				t.Errorf("%s: found in the archive, want no file outside of %s or below %s", name, top, not)
			}
		}
	}

	dir := must.Value(command(tree, "go", "list", "-m", "-f", "{{.Dir}}", "github.com/pilebones/go-udev"))(t)
	root := strings.TrimSpace(string(dir))
	paths := must.Value(filepath.Glob(filepath.Join(root, "netlink", "*.go")))(t)
	paths = slices.DeleteFunc(paths, func(p string) bool { return strings.HasSuffix(p, "_test.go") })
	if len(paths) == 0 {
		t.Fatalf("no source of go-udev in %s", root)
	}
	for _, path := range append(paths, filepath.Join(root, "LICENSE")) {
		below, _ := filepath.Rel(root, path)
		compare.Values(t, "go-udev: "+below, must.Value(os.ReadFile(path))(t), files[top+"vendor/github.com/pilebones/go-udev/"+below].Data)
	}

	compare.Equal(t, "the same tree gives the same archive", true, bytes.Equal(first, source(t, ".")))
}

// The binaries can be built from the archive alone, without network or other modules, from the same
// versions of the same modules.
func TestSourceBuilds(t *testing.T) {
	dir := t.TempDir()
	unpack := exec.Command("tar", "-xzm")
	unpack.Dir, unpack.Stdin = dir, bytes.NewReader(source(t, "dra", "."))
	if out, err := unpack.CombinedOutput(); err != nil {
		t.Fatalf("tar: %v: %s", err, out)
	}
	for _, tt := range []struct{ module, name string }{{".", "accelerator-device-plugin"}, {"dra", "accelerator-dra-driver"}} {
		t.Run(tt.name, func(t *testing.T) {
			want := built(t, tree, tt.module, tt.name)
			got := built(t, filepath.Join(dir, "accelerator-device-plugin-1.2.3-dev+abc"), tt.module, tt.name,
				"GOPROXY=off", "GOFLAGS=", "GOMODCACHE="+filepath.Join(dir, "empty"))
			compare.Values(t, "modules", versions(want), versions(got))
			compare.Equal(t, "has modules", true, len(want.Deps) > 0)
		})
	}
}

// versions returns the modules that are linked into a binary, with their versions.
func versions(info *buildinfo.BuildInfo) (all []string) {
	for _, m := range info.Deps {
		all = append(all, m.Path+" "+m.Version)
	}
	return all
}

// Source fails outside of a git work tree.
func TestSourceWithoutGit(t *testing.T) {
	t.Setenv("GIT_CEILING_DIRECTORIES", os.TempDir())
	compare.Error(t, "no work tree", "want a git work tree", compare.ErrorOf(Source(t.TempDir(), nil, "v1", example.Created)))
}
