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

// Unfold makes the tree of the board in file below the existing directory root.
// Two boards may be unfolded into one root: directories are shared, files
// overwritten; a link that is there already is an error.
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

// UnfoldText is Unfold for a board that is not in a file.
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

// maxRecorded is far above the size of any file of a recorded tree, in bytes.
const maxRecorded = 4 << 20

// Unpack makes the tree in a recording (tar, gzip) below the existing directory root and
// returns the directory that holds sys and dev: some recordings were taken of a simulated
// node under tmp/. Entries other than directories, files and links are refused.
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
	return fmt.Errorf("%s: entry of type %q", h.Name, h.Typeflag)
}

// write makes a file and its directory, or overwrites the file.
func write(r *os.Root, name string, content []byte) error {
	if err := r.MkdirAll(path.Dir(name), 0o755); err != nil {
		return err
	}
	return r.WriteFile(name, content, 0o644)
}

// link makes a link and its directory. The target need not exist, but must be in the tree.
func link(r *os.Root, name, target string) error {
	if path.IsAbs(target) || !filepath.IsLocal(path.Join(path.Dir(name), target)) {
		return errors.New("leads out of the tree")
	}
	if err := r.MkdirAll(path.Dir(name), 0o755); err != nil {
		return err
	}
	return r.Symlink(target, name)
}
