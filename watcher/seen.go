package watcher

import (
	"os"
	"time"

	"b-com.com/accelerator-device-plugin/internal/sysfs"
)

// seen contains the known directories and symlinks in a simulated tree, keyed by absolute path.
type seen struct {
	prefix int               // length of the root's path
	dirs   map[string]bool   // the watched directories
	links  map[string]string // the card in the link's target, if the link's own path doesn't contain one
}

func newSeen(prefix int) seen {
	return seen{prefix: prefix, dirs: make(map[string]bool), links: make(map[string]string)}
}

// card returns the card that path belongs to, or "". It looks for the card's address in the part of the path below the
// root. If there is none, and path is or was a symlink (class/fpga_region/region0), it uses the address in the link's
// target.
func (s *seen) card(path string) string {
	if card := sysfs.PCIAddressOf(path[min(s.prefix, len(path)):]); card != "" {
		return card
	}
	return s.links[path]
}

// addLink stores the card that the symlink at path points to, unless path itself contains a card's address.
func (s *seen) addLink(path string) {
	delete(s.links, path)
	if s.card(path) != "" {
		return
	}
	target, err := os.Readlink(path)
	if err != nil {
		return // the link was removed or replaced, which causes another event
	}
	if card := sysfs.PCIAddressOf(target); card != "" {
		s.links[path] = card
	}
}

// remove deletes path from seen. Entries in a removed directory don't have to be deleted here, because their removal
// causes separate events.
func (s *seen) remove(path string) {
	delete(s.dirs, path)
	delete(s.links, path)
}

// cards is a set of PCI addresses; "" stands for all cards.
type cards map[string]bool

func (c cards) hint(hint func(Hint), at time.Time) {
	if c[""] {
		hint(Hint{Source: SourceInotify, At: at})
		return
	}
	for card := range c {
		hint(Hint{Card: card, Source: SourceInotify, At: at})
	}
}
