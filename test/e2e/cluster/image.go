package cluster

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
)

// The images for the sandboxes and for the stories' pods.
const (
	PauseImage    = "adp.e2e/pause:1"
	WorkloadImage = "adp.e2e/workload:1"
)

// Images lists PauseImage and WorkloadImage. Both contain test/e2e/workload's binary.
var Images = []Image{{Name: PauseImage}, {Name: WorkloadImage}}

// Image is an image that contains a single static binary.
type Image struct {
	Name string
	Args []string // the binary's arguments, which come before the container's
	User string   // user ID; root if empty
}

// WriteImages writes an archive of images in docker save's format. The given binary is the only file in each image.
func WriteImages(path, binary string, images []Image) error {
	program, err := os.ReadFile(binary)
	if err != nil {
		return err
	}
	name := filepath.Base(binary)
	var layer bytes.Buffer
	w := tar.NewWriter(&layer)
	for _, dir := range []string{"dev/", "etc/", "proc/", "sys/", "tmp/"} {
		if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: dir, Mode: 0o755}); err != nil {
			return err
		}
	}
	if err := addFile(w, name, 0o755, program); err != nil {
		return err
	}
	if err := w.Close(); err != nil {
		return err
	}
	archive, err := archive(layer.Bytes(), "/"+name, images)
	if err != nil {
		return err
	}
	return os.WriteFile(path, archive, 0o644)
}

func archive(layer []byte, program string, images []Image) ([]byte, error) {
	type object map[string]any
	files := map[string][]byte{"layer.tar": layer}
	var manifest []object
	for i, image := range images {
		config, err := json.Marshal(object{
			"architecture": runtime.GOARCH, "os": "linux", "config": object{"Entrypoint": append([]string{program}, image.Args...), "User": image.User},
			"rootfs": object{"type": "layers", "diff_ids": []string{fmt.Sprintf("sha256:%x", sha256.Sum256(layer))}},
		})
		if err != nil {
			return nil, err
		}
		name := fmt.Sprintf("config-%d.json", i)
		files[name] = config
		manifest = append(manifest, object{"Config": name, "RepoTags": []string{image.Name}, "Layers": []string{"layer.tar"}})
	}
	text, err := json.Marshal(manifest)
	if err != nil {
		return nil, err
	}
	files["manifest.json"] = text
	var archive bytes.Buffer
	w := tar.NewWriter(&archive)
	for name, content := range files {
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
