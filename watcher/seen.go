package watcher

import (
	"os"
	"time"

	"b-com.com/accelerator-device-plugin/internal/sysfs"
)

// seen has the directories and links of a simulated tree, by absolute path.
type seen struct {
	prefix int               // length of the root's path
	dirs   map[string]bool   // that are watched
	links  map[string]string // card of the target of a link, if the link's own path has none
}

func newSeen(prefix int) seen {
	return seen{prefix: prefix, dirs: make(map[string]bool), links: make(map[string]string)}
}

// card returns the card that path belongs to, by its elements below the root, or by the target
// of the link that is or was there (class/fpga_region/region0), or "".
func (s *seen) card(path string) string {
	if card := sysfs.PCIAddressOf(path[min(s.prefix, len(path)):]); card != "" {
		return card
	}
	return s.links[path]
}

// learn stores the card of the link at path, if path itself has none.
func (s *seen) learn(path string) {
	delete(s.links, path)
	if s.card(path) != "" {
		return
	}
	target, err := os.Readlink(path)
	if err != nil {
		return // it was removed or replaced, which is an event of its own
	}
	if card := sysfs.PCIAddressOf(target); card != "" {
		s.links[path] = card
	}
}

// forget deletes the entries of path. A directory that is removed is empty: its entries had
// events of their own.
func (s *seen) forget(path string) {
	delete(s.dirs, path)
	delete(s.links, path)
}

// cards is a set of addresses; "" stands for everything.
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
