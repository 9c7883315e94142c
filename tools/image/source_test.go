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

	"github.com/google/go-cmp/cmp"
)

const tree = "../.."

// source returns the source archive of an image with binaries of these modules.
func source(t *testing.T, modules ...string) []byte {
	t.Helper()
	archive, err := Source(tree, modules, example.Version, example.Created)
	if err != nil {
		t.Fatal(err)
	}
	return archive
}

// sourceFiles returns the files of a source archive.
func sourceFiles(t *testing.T, archive []byte) Files {
	t.Helper()
	r, err := gzip.NewReader(bytes.NewReader(archive))
	if err != nil {
		t.Fatal(err)
	}
	files, _ := untar(t, r)
	return files
}

// The archive contains the project's files unchanged, including links. It contains each file of the go-udev package and
// its licence, which requires the source to be passed on.
func TestSource(t *testing.T) {
	first := source(t, ".")
	files := sourceFiles(t, first)
	const top = "accelerator-device-plugin-1.2.3-dev+abc/"
	for _, name := range []string{"go.mod", "go.sum", "Makefile", "LICENSE", "NOTICE", "watcher/netlink_linux.go", "cmd/accelerator-device-plugin/main.go"} {
		want, err := os.ReadFile(filepath.Join(tree, name))
		if err != nil {
			t.Fatal(err)
		}
		if got, ok := files[top+name]; !ok || got.Mode != 0o644 || !bytes.Equal(got.Data, want) {
			t.Errorf("%s: mode %v, %d bytes; want 0644 and %d bytes as in the tree", name, got.Mode, len(got.Data), len(want))
		}
	}
	if got := string(files[top+"VERSION"].Data); got != "1.2.3-dev+abc\n" {
		t.Errorf("VERSION: found %q, want the version of the programs", got)
	}
	if got := files[top+".ci/run"].Mode; got != 0o755 {
		t.Errorf(".ci/run: mode %v, want 0755", got)
	}
	want := File{Mode: fs.ModeSymlink | 0o777, Data: []byte("../helm/accelerator-device-plugin/files/alerts.yaml")}
	if diff := cmp.Diff(want, files[top+"deploy/prometheus/alerts.yaml"]); diff != "" {
		t.Errorf("link (-want +got):\n%s", diff)
	}
	for name := range files {
		for _, not := range []string{"bin", "dist", ".git"} {
			if !strings.HasPrefix(name, top) || strings.HasPrefix(name, top+not+"/") {
				t.Errorf("%s: found in the archive, want no file outside of %s or below %s", name, top, not)
			}
		}
	}

	dir, err := command(tree, "go", "list", "-m", "-f", "{{.Dir}}", "github.com/pilebones/go-udev")
	if err != nil {
		t.Fatal(err)
	}
	root := strings.TrimSpace(string(dir))
	paths, err := filepath.Glob(filepath.Join(root, "netlink", "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	paths = slices.DeleteFunc(paths, func(p string) bool { return strings.HasSuffix(p, "_test.go") })
	if len(paths) == 0 {
		t.Fatalf("no source of go-udev in %s", root)
	}
	for _, path := range append(paths, filepath.Join(root, "LICENSE")) {
		below, _ := filepath.Rel(root, path)
		want, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if got := files[top+"vendor/github.com/pilebones/go-udev/"+below].Data; !bytes.Equal(got, want) {
			t.Errorf("go-udev: %s: %d bytes, want %d as in the module", below, len(got), len(want))
		}
	}

	if !bytes.Equal(first, source(t, ".")) {
		t.Error("the same tree gives different archives")
	}
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
			if diff := cmp.Diff(versions(want), versions(got)); diff != "" || len(want.Deps) == 0 {
				t.Errorf("modules (-want +got):\n%s", diff)
			}
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
	if _, err := Source(t.TempDir(), nil, "v1", example.Created); err == nil || !strings.Contains(err.Error(), "want a git work tree") {
		t.Errorf("error %v, want %q in it", err, "want a git work tree")
	}
}
