package simnode

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// tree creates files and links. It stores the first error in err, and does nothing after that.
type tree struct {
	directories *directories
	made        map[string]bool // directories created so far; without it, most of the time would be spent checking for directories
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

// node creates a device node.
func (n *Node) node(t *tree, name string, major, minor int) {
	path := filepath.Join(n.Dev, name)
	if !n.Mknod {
		t.file(path, "")
		return
	}
	t.dir(filepath.Dir(path))
	if t.err != nil {
		return
	}
	// For these majors, and minors below 256, the device number is major<<8 | minor.
	if minor > 255 {
		t.err = fmt.Errorf("%s: found no free minor number, want fewer cards", name)
		return
	}
	if err := syscall.Mknod(path, syscall.S_IFCHR|0o600, major<<8|minor); err != nil {
		t.err = fmt.Errorf("mknod %s: %w", path, err)
	}
}

// attribute is a driver's file, which contains a value and a newline.
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
	// As in the kernel, the link's path goes through the target's parent. That way, it ends with the target's name even
	// if the target is an ancestor of the link.
	parent, err := filepath.Rel(filepath.Dir(path), filepath.Dir(target))
	if err != nil {
		t.err = err
		return
	}
	t.err = os.Symlink(filepath.Join(parent, filepath.Base(target)), path)
}
