package simnode

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// tree makes files and links and keeps the first error.
type tree struct {
	directories *directories
	made        map[string]bool // directories; looking for each again takes most of the time
	err         error
}

func (t *tree) dir(path string) {
	if t.err != nil || t.made[path] {
		return
	}
	if t.made == nil {
		t.made = map[string]bool{}
	}
	t.err = t.directories.makeAll(path)
	t.made[path] = t.err == nil
}

func (t *tree) file(path, content string) {
	t.dir(filepath.Dir(path))
	if t.err == nil {
		t.err = os.WriteFile(path, []byte(content), 0o644)
	}
}

// node makes a device node.
func (n *Node) node(t *tree, name string, major, minor int) {
	path := filepath.Join(n.Dev, name)
	if !n.Mknod {
		t.file(path, "")
		return
	}
	if t.err != nil {
		return
	}
	// Minors below 256 and these majors are numbered as ever: major<<8 | minor.
	if err := syscall.Mknod(path, syscall.S_IFCHR|0o600, major<<8|minor); err != nil {
		t.err = fmt.Errorf("mknod %s: %w", path, err)
	}
}

// attribute is a file as a driver shows it: one value and the end of its line.
type attribute struct{ name, value string }

func (t *tree) attributes(dir string, all ...attribute) {
	for _, a := range all {
		t.file(filepath.Join(dir, a.name), a.value+"\n")
	}
}

func (t *tree) link(target, path string) {
	t.dir(filepath.Dir(path))
	if t.err != nil {
		return
	}
	// As the kernel writes it: up to the target's parent, then down, so that the
	// link ends in the target's name even where the target is an ancestor.
	parent, err := filepath.Rel(filepath.Dir(path), filepath.Dir(target))
	if err != nil {
		t.err = err
		return
	}
	t.err = os.Symlink(filepath.Join(parent, filepath.Base(target)), path)
}
