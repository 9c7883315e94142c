package watcher

import (
	"os"
	"time"

	"b-com.com/accelerator-device-plugin/internal/sysfs"
)

// seen contains the known directories and links in a simulated tree, by absolute path.
type seen struct {
	prefix int               // length of the root's path
	dirs   map[string]bool   // the watched directories
	links  map[string]string // the card in the link's target, if the link's own path doesn't contain one
}

func newSeen(prefix int) seen {
	return seen{prefix: prefix, dirs: make(map[string]bool), links: make(map[string]string)}
}

// card returns the card that path belongs to, or "". It looks at the path's elements below the root, and at the target
// of the link that is or was at path (class/fpga_region/region0).
func (s *seen) card(path string) string {
	if card := sysfs.PCIAddressOf(path[min(s.prefix, len(path)):]); card != "" {
		return card
	}
	return s.links[path]
}

// addLink stores the card in the target of the link at path, if path itself doesn't contain one.
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

// cards is a set of PCI addresses; "" means everything.
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
