package board

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
)

// maxRecorded is far above the size of any file of a recorded tree, in bytes.
const maxRecorded = 4 << 20

// Unpack makes the tree in a recording (tar, gzip) below the existing directory
// root and returns the directory that holds sys and dev: some recordings were
// taken of a simulated node under tmp/. Entries other than directories, files
// and links are refused.
func Unpack(root, recording string) (string, error) {
	f, err := os.Open(recording)
	if err != nil {
		return "", err
	}
	defer f.Close()
	r, err := openTree(root)
	if err != nil {
		return "", err
	}
	defer r.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		return "", fmt.Errorf("%s: %w", recording, err)
	}
	for t := tar.NewReader(z); ; {
		h, err := t.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err == nil {
			err = extract(r, h, t)
		}
		if err != nil {
			return "", fmt.Errorf("%s: %w", recording, err)
		}
	}
	if _, err := r.Stat("tmp/sys"); err == nil {
		return filepath.Join(root, "tmp"), nil
	}
	return root, nil
}

func extract(r tree, h *tar.Header, content io.Reader) error {
	name := path.Clean(h.Name)
	switch h.Typeflag {
	case tar.TypeDir:
		return r.dir(name)
	case tar.TypeSymlink:
		return r.link(name, h.Linkname)
	case tar.TypeReg:
		data, err := io.ReadAll(io.LimitReader(content, maxRecorded))
		if err != nil {
			return err
		}
		return r.file(name, data)
	}
	return fmt.Errorf("%s: entry of type %q", h.Name, h.Typeflag)
}
