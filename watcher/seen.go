package watcher

import (
	"os"
	"time"

	"b-com.com/accelerator-device-plugin/internal/sysfs"
)

// seen is what is known of a simulated tree, by absolute path.
type seen struct {
	prefix int               // length of the root's path
	dirs   map[string]bool   // that are watched
	links  map[string]string // card that a link leads to whose own path names none
}

func newSeen(prefix int) seen {
	return seen{prefix: prefix, dirs: make(map[string]bool), links: make(map[string]string)}
}

// card is the card that path belongs to, or "" where that is not known: by its
// path below the root, else by the target of the link that stands there, or
// stood (class/fpga_region/region0).
func (s *seen) card(path string) string {
	if card := sysfs.PCIAddressOf(path[min(s.prefix, len(path)):]); card != "" {
		return card
	}
	return s.links[path]
}

// learn remembers where the link at path leads, if that tells more than path.
func (s *seen) learn(path string) {
	delete(s.links, path)
	if s.card(path) != "" {
		return
	}
	target, err := os.Readlink(path)
	if err != nil {
		return // gone, or replaced: that is an event of its own
	}
	if card := sysfs.PCIAddressOf(target); card != "" {
		s.links[path] = card
	}
}

// forget drops what stood at path. A directory that was removed was empty by
// then, and what was in it had its own events.
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
