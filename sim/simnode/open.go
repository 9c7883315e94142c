package simnode

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"b-com.com/accelerator-device-plugin/internal/privatedir"
)

// Names of files in a saved node's directory.
const (
	stateFile = "node.json"
	newState  = stateFile + ".new"
	lockFile  = "lock"
)

// lockTimeout is how long Open waits for another process.
const lockTimeout = 10 * time.Second

// Open returns the node saved in dir. If dir doesn't exist or is empty, Open creates a node without cards. Other
// processes can't open the node until Close. dir must belong to the effective user, and no other user may be able to
// write to it or redirect its path, because the files in it are trusted. If the effective user is root, Open sets
// Mknod.
//
// If the last process that used the node was killed, a card may be only partly plugged in or pulled. Such a card can be
// unplugged.
func Open(ctx context.Context, dir string) (*Node, error) {
	root, err := privatedir.OpenDir(dir, true)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	if err := checkContent(root); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, lockTimeout)
	defer cancel()
	lock, err := privatedir.AcquireLock(ctx, root, lockFile)
	if err != nil {
		return nil, err
	}
	n := in(root.Name())
	n.Mknod, n.state, n.lock = os.Geteuid() == 0, filepath.Join(root.Name(), stateFile), lock
	if err := n.load(root); err != nil {
		return nil, errors.Join(err, n.Close())
	}
	return n, nil
}

// Close closes a node opened with [Open]. Other processes can then open it.
func (n *Node) Close() error { return n.lock.Release() }

// checkContent returns an error unless the directory is empty or contains a node.
func checkContent(root *os.Root) error {
	entries, err := fs.ReadDir(root.FS(), ".")
	if err != nil {
		return privatedir.PathError(root.Name(), err)
	}
	for _, e := range entries {
		if name := e.Name(); name == lockFile || name == newState {
			continue
		}
		if _, err := root.Lstat(stateFile); err != nil {
			return fmt.Errorf("%s: found %s and no %s, want an empty directory, or that of a simulated node", root.Name(), e.Name(), stateFile)
		}
		break
	}
	return nil
}

// saved is the content of node.json.
type saved struct {
	Version int
	Cards   []*plugged // sorted by address
	Deleted []uint64   // see directories
}

const (
	savedAs  = 1       // node.json's version
	maxState = 1 << 20 // in bytes; 255 cards and maxDeleted directories take up a tenth of this
)

// save writes the node to its file, if it has one.
func (n *Node) save() error {
	if n.state == "" {
		return nil
	}
	s := saved{Version: savedAs, Deleted: n.directories.deleted}
	for _, address := range slices.Sorted(maps.Keys(n.cards)) {
		s.Cards = append(s.Cards, n.cards[address])
	}
	text, err := json.Marshal(s)
	if err != nil {
		return err
	}
	return n.SetFile(n.state, string(text)+"\n")
}

// load reads the node from its file. If the node's files don't exist yet, load creates them, starting with node.json,
// so that even an incomplete node's directory contains node.json.
func (n *Node) load(root *os.Root) error {
	text, err := privatedir.ReadFile(root, stateFile, maxState)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		err = n.save()
	case err == nil:
		err = n.restore(text)
	}
	if err != nil {
		return err
	}
	if _, err := os.Lstat(filepath.Join(n.bridgeDir(), lastOfBridge)); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return n.make()
}

func (n *Node) restore(text []byte) error {
	var s saved
	err := json.Unmarshal(text, &s)
	if err == nil && s.Version != savedAs {
		err = fmt.Errorf("found version %d, want %d", s.Version, savedAs)
	}
	if err != nil {
		return fmt.Errorf("%s: %w; remove its directory to create a new node", n.state, err)
	}
	n.directories.deleted = s.Deleted
	for _, c := range s.Cards {
		n.cards[c.Address] = c
	}
	return nil
}

// partial returns the error for a card that has been partly plugged in or pulled.
func (c *plugged) partial() error {
	return fmt.Errorf("%s: card is plugged or pulled in part, because a process was killed: pull it first", c.Address)
}
