package simnode

import (
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"syscall"
)

// tree creates files and links. It keeps the first error, after which it does nothing.
type tree struct {
	directories *directories
	made        map[string]bool // created directories: checking each again would take most of the time
	spares      string          // directory of the spare parts of a slot; "": none
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
	// For minors below 256 and these majors the device number is major<<8 | minor.
	if minor > 255 {
		t.err = fmt.Errorf("%s: found no free minor number, want fewer cards", name)
		return
	}
	if err := syscall.Mknod(path, syscall.S_IFCHR|0o600, major<<8|minor); err != nil {
		t.err = fmt.Errorf("mknod %s: %w", path, err)
	}
}

// part creates a file, and keeps a second link to it as a spare part for the next card in the slot.
// Plugging a card again then takes half the time: a new file takes 1 ms on some disks, and a card has
// some fifty. A spare part that was written to in place is created again. Slots do not share parts.
func (t *tree) part(path, content string) {
	if t.spares == "" {
		t.file(path, content)
		return
	}
	spare := filepath.Join(t.spares, fmt.Sprintf("%s-%08x", filepath.Base(path), crc32.ChecksumIEEE([]byte(content))))
	if text, err := os.ReadFile(spare); err != nil || string(text) != content {
		if t.err == nil && err == nil {
			t.err = os.Remove(spare)
		}
		t.file(spare, content)
	}
	t.dir(filepath.Dir(path))
	if t.err == nil {
		t.err = os.Link(spare, path)
	}
}

// attribute is a file of a driver, with one value and a line feed.
type attribute struct{ name, value string }

// attributes creates parts. Two parts of a slot must not have the same name and value.
func (t *tree) attributes(dir string, all ...attribute) {
	for _, a := range all {
		t.part(filepath.Join(dir, a.name), a.value+"\n")
	}
}

func (t *tree) link(target, path string) {
	t.dir(filepath.Dir(path))
	if t.err != nil {
		return
	}
	// As in the kernel, the path leads to the target's parent and then to the target, so that it ends
	// in the target's name even if the target is an ancestor.
	parent, err := filepath.Rel(filepath.Dir(path), filepath.Dir(target))
	if err != nil {
		t.err = err
		return
	}
	t.err = os.Symlink(filepath.Join(parent, filepath.Base(target)), path)
}
