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
	"strings"

	"golang.org/x/tools/txtar"
)

// Unfold writes the tree of the board in file below root, an existing directory. Two boards can have
// the same root: their directories are merged and files overwritten. A link that already exists is an
// error.
func Unfold(root, file string) error {
	data, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	if err := UnfoldText(root, data); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	return nil
}

// UnfoldText is Unfold for the text of a board.
func UnfoldText(root string, board []byte) error {
	r, err := os.OpenRoot(root)
	if err != nil {
		return err
	}
	defer r.Close()
	for _, f := range txtar.Parse(board).Files {
		name, target, isLink := strings.Cut(f.Name, " -> ")
		dir, isDir := strings.CutSuffix(name, "/")
		switch {
		case isLink:
			err = link(r, name, target)
		case isDir:
			err = r.MkdirAll(dir, 0o755)
		default:
			err = write(r, name, f.Data)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", f.Name, err)
		}
	}
	return nil
}

// maxRecorded is the most bytes that are read of a file in a recording. Recorded files are far
// smaller.
const maxRecorded = 4 << 20

// Unpack writes the tree of a recording (tar, gzip) below root, an existing directory. It returns the
// directory that contains sys and dev: in recordings of a simulated node it is tmp. Entries other than
// directories, files and links are refused.
func Unpack(root, recording string) (string, error) {
	f, err := os.Open(recording)
	if err != nil {
		return "", err
	}
	defer f.Close()
	r, err := os.OpenRoot(root)
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

// extract writes one entry of a recording.
func extract(r *os.Root, h *tar.Header, content io.Reader) error {
	name := path.Clean(h.Name)
	switch h.Typeflag {
	case tar.TypeDir:
		return r.MkdirAll(name, 0o755)
	case tar.TypeSymlink:
		return link(r, name, h.Linkname)
	case tar.TypeReg:
		data, err := io.ReadAll(io.LimitReader(content, maxRecorded))
		if err != nil {
			return err
		}
		return write(r, name, data)
	}
	return fmt.Errorf("%s: found an entry of type %q, want a directory, a file or a link", h.Name, h.Typeflag)
}

// write writes a file, and creates its directory.
func write(r *os.Root, name string, content []byte) error {
	if err := r.MkdirAll(path.Dir(name), 0o755); err != nil {
		return err
	}
	return r.WriteFile(name, content, 0o644)
}

// link creates a link and its directory. The target need not exist, but must be in the tree.
func link(r *os.Root, name, target string) error {
	if path.IsAbs(target) || !filepath.IsLocal(path.Join(path.Dir(name), target)) {
		return errors.New("found a target outside of the tree, want one in it")
	}
	if err := r.MkdirAll(path.Dir(name), 0o755); err != nil {
		return err
	}
	return r.Symlink(target, name)
}
