package simnode

import (
	"path/filepath"
	"strconv"
)

// Restore returns the node that Open makes of the content of node.json.
func Restore(dir string, text []byte) (*Node, error) {
	n := in(dir)
	s, err := parse(text)
	if err == nil {
		err = n.restore(s)
	}
	return n, err
}

// Saved returns the content of node.json.
func (n *Node) Saved() ([]byte, error) { return n.marshal() }

// Directories creates and removes directories below dir.
type Directories struct{ d *directories }

// NewDirectories returns Directories that keep this number of deleted directories.
func NewDirectories(dir string, keep int) Directories {
	return Directories{&directories{dir: dir, keep: keep}}
}

// MakeAndRemove creates n directories, and removes them.
func (d Directories) MakeAndRemove(n int) error {
	top := filepath.Join(d.d.dir, "top")
	for i := range n {
		if err := d.d.makeAll(filepath.Join(top, strconv.Itoa(i))); err != nil {
			return err
		}
	}
	return d.d.removeAll(top)
}
