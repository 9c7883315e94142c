package cluster

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"runtime"
)

// The images for sandboxes and for the pods of the stories. Both have the binary of test/e2e/workload.
const (
	PauseImage    = "adp.e2e/pause:1"
	WorkloadImage = "adp.e2e/workload:1"
)

// WriteImages writes an archive in the form of docker save with both images. They have only the static
// binary.
func WriteImages(path, binary string) error {
	program, err := os.ReadFile(binary)
	if err != nil {
		return err
	}
	var layer bytes.Buffer
	w := tar.NewWriter(&layer)
	for _, dir := range []string{"dev/", "etc/", "proc/", "sys/", "tmp/"} {
		if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: dir, Mode: 0o755}); err != nil {
			return err
		}
	}
	if err := addFile(w, "workload", 0o755, program); err != nil {
		return err
	}
	if err := w.Close(); err != nil {
		return err
	}
	archive, err := archive(layer.Bytes())
	if err != nil {
		return err
	}
	return os.WriteFile(path, archive, 0o644)
}

func archive(layer []byte) ([]byte, error) {
	type object map[string]any
	config, err := json.Marshal(object{
		"architecture": runtime.GOARCH, "os": "linux", "config": object{"Entrypoint": []string{"/workload"}},
		"rootfs": object{"type": "layers", "diff_ids": []string{fmt.Sprintf("sha256:%x", sha256.Sum256(layer))}},
	})
	if err != nil {
		return nil, err
	}
	manifest, err := json.Marshal([]object{
		{"Config": "config.json", "RepoTags": []string{PauseImage, WorkloadImage}, "Layers": []string{"layer.tar"}},
	})
	if err != nil {
		return nil, err
	}
	var archive bytes.Buffer
	w := tar.NewWriter(&archive)
	for name, content := range map[string][]byte{"manifest.json": manifest, "config.json": config, "layer.tar": layer} {
		if err := addFile(w, name, 0o644, content); err != nil {
			return nil, err
		}
	}
	return archive.Bytes(), w.Close()
}

func addFile(w *tar.Writer, name string, mode int64, content []byte) error {
	if err := w.WriteHeader(&tar.Header{Name: name, Mode: mode, Size: int64(len(content))}); err != nil {
		return err
	}
	_, err := w.Write(content)
	return err
}
