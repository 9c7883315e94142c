package board

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"

	"golang.org/x/tools/txtar"
)

// Unfold reads a board from a file, and writes its tree below root, which must exist. Several boards can share a root:
// their directories are merged, and a later board's files replace existing ones. Links that already exist are an error.
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

// UnfoldText is like [Unfold], but takes the text of the board instead of a file.
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

// remark matches a line in the header of a board recorded by `make fixtures`. Such lines describe files that can't be
// stored as text (docs/testing.md).
var remark = regexp.MustCompile(`(?m)^  (sys/\S+) (answers|begins|does not answer) ?(.*)$`)

// UnfoldRecorded is like [Unfold], but also creates the files described in a recorded board's header: binary files, and
// a FIFO for each file that hangs when it is read. It doesn't create files that couldn't be read; instead, it returns
// the name of each such file's error, keyed by the file's path below root.
func UnfoldRecorded(root, file string) (failing map[string]string, err error) {
	if err := Unfold(root, file); err != nil {
		return nil, err
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	r, err := os.OpenRoot(root)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	failing = make(map[string]string)
	head, _, _ := strings.Cut(string(text), "\n-- ")
	for _, m := range remark.FindAllStringSubmatch(head, -1) {
		var err error
		switch name := m[1]; m[2] {
		case "begins":
			var content []byte
			if content, err = hex.DecodeString(strings.ReplaceAll(m[3], " ", "")); err == nil {
				err = write(r, name, content)
			}
		case "does not answer":
			if err = fs.ErrInvalid; filepath.IsLocal(name) {
				err = syscall.Mkfifo(filepath.Join(root, name), 0o600)
			}
		default:
			failing[name] = m[3]
		}
		if err != nil {
			return nil, fmt.Errorf("%s: remark on %s: %w", file, m[1], err)
		}
	}
	return failing, nil
}

// write writes a file, creating the directory if necessary.
func write(r *os.Root, name string, content []byte) error {
	if err := r.MkdirAll(path.Dir(name), 0o755); err != nil {
		return err
	}
	return r.WriteFile(name, content, 0o644)
}

// link creates a link, and its directory if necessary. The target doesn't need to exist, but it must be in the tree.
func link(r *os.Root, name, target string) error {
	if path.IsAbs(target) || !filepath.IsLocal(path.Join(path.Dir(name), target)) {
		return errors.New("found a target outside of the tree, want one in it")
	}
	if err := r.MkdirAll(path.Dir(name), 0o755); err != nil {
		return err
	}
	return r.Symlink(target, name)
}
