package simnode

import (
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"syscall"
)

// tree makes files and links and keeps the first error.
type tree struct {
	directories *directories
	made        map[string]bool // directories; looking for each again takes most of the time
	spares      string          // directory of the spare parts of one slot; "": none
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
		t.err = writeFile(path, content)
	}
}

// writeFile writes a file, but not through a link: in a node that was copied from elsewhere, one may
// lead out of it.
func writeFile(path, content string) error {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC|syscall.O_NOFOLLOW, 0o644)
	if err != nil {
		return err
	}
	_, err = file.WriteString(content)
	return errors.Join(err, file.Close())
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
	if minor > 255 {
		t.err = fmt.Errorf("%s: no minor number is left, want fewer cards", name)
		return
	}
	if err := syscall.Mknod(path, syscall.S_IFCHR|0o600, major<<8|minor); err != nil {
		t.err = fmt.Errorf("mknod %s: %w", path, err)
	}
}

// part makes a file, and keeps a second link to it as a spare part of the slot for the next card
// that is plugged in there. Plugging a card again then takes half the time: a new file takes
// 1 ms on some disks, and a card has some fifty. A spare part that was written to in place is
// made again. No two slots share a part.
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

// attribute is a file as a driver shows it: one value and the end of its line.
type attribute struct{ name, value string }

// attributes makes parts, no two of a slot with the same name and value.
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
	// As the kernel writes it: up to the target's parent, then down, so that the
	// link ends in the target's name even where the target is an ancestor.
	parent, err := filepath.Rel(filepath.Dir(path), filepath.Dir(target))
	if err != nil {
		t.err = err
		return
	}
	t.err = os.Symlink(filepath.Join(parent, filepath.Base(target)), path)
}
