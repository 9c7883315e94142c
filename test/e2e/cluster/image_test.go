package cluster_test

import (
	"archive/tar"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"b-com.com/accelerator-device-plugin/test/e2e/cluster"
)

// Each image in an archive runs the binary with its own arguments and user.
func TestWriteImages(t *testing.T) {
	dir := t.TempDir()
	binary, archive := filepath.Join(dir, "program"), filepath.Join(dir, "images.tar")
	if err := os.WriteFile(binary, []byte("binary"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := cluster.WriteImages(archive, binary, []cluster.Image{{Name: "a:1"}, {Name: "b:1", Args: []string{"part"}, User: "1000"}}); err != nil {
		t.Fatal(err)
	}
	file, err := os.Open(archive)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	files := map[string][]byte{}
	for r := tar.NewReader(file); ; {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if files[header.Name], err = io.ReadAll(r); err != nil {
			t.Fatal(err)
		}
	}
	var manifest []struct {
		Config   string
		RepoTags []string
	}
	if err := json.Unmarshal(files["manifest.json"], &manifest); err != nil {
		t.Fatal(err)
	}
	type settings struct {
		Entrypoint []string
		User       string
	}
	got := map[string]settings{}
	for _, image := range manifest {
		var config struct{ Config settings }
		if err := json.Unmarshal(files[image.Config], &config); err != nil {
			t.Fatal(err)
		}
		for _, name := range image.RepoTags {
			got[name] = config.Config
		}
	}
	want := map[string]settings{"a:1": {[]string{"/program"}, ""}, "b:1": {[]string{"/program", "part"}, "1000"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
