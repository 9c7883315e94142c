package board

import (
	"errors"
	"os"
	"path"
	"path/filepath"
)

var errEscapes = errors.New("leads out of the tree")

// tree is a directory that is filled, and left by no name and no link.
type tree struct {
	*os.Root
	made map[string]bool // directories; walking to each anew is most of the work
}

func openTree(root string) (tree, error) {
	r, err := os.OpenRoot(root)
	return tree{r, map[string]bool{".": true}}, err
}

// dir makes a directory and those above it.
func (t tree) dir(name string) error {
	if !filepath.IsLocal(name) {
		return errEscapes
	}
	if t.made[name] {
		return nil
	}
	if err := t.MkdirAll(name, 0o755); err != nil {
		return err
	}
	t.made[name] = true
	return nil
}

// file makes a file, or overwrites it.
func (t tree) file(name string, content []byte) error {
	if !filepath.IsLocal(name) {
		return errEscapes
	}
	if err := t.dir(path.Dir(name)); err != nil {
		return err
	}
	return t.WriteFile(name, content, 0o644)
}

// link makes a link. Where it leads need not exist, but must be in the tree.
func (t tree) link(name, target string) error {
	if path.IsAbs(target) || !filepath.IsLocal(name) || !filepath.IsLocal(path.Join(path.Dir(name), target)) {
		return errEscapes
	}
	if err := t.dir(path.Dir(name)); err != nil {
		return err
	}
	return t.Symlink(target, name)
}
