package server

import (
	"slices"
	"strings"
	"sync"

	"b-com.com/accelerator-device-plugin/server/offer"
)

// goneLimit bounds how many removed ids an endpoint remembers.
const goneLimit = 1024

// gone remembers the ids that were listed once and are no more, so that a
// refusal can say so. The oldest are forgotten first.
type gone struct {
	mu  sync.Mutex
	ids []string // oldest first
}

// follow takes note of what left and what returned. Both lists are sorted by id.
func (g *gone) follow(before, after []offer.Unit) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for len(before) > 0 || len(after) > 0 {
		switch order := compareFirst(before, after); {
		case order < 0:
			g.ids = append(g.ids, before[0].ID)
			before = before[1:]
		case order > 0:
			if i := slices.Index(g.ids, after[0].ID); i >= 0 {
				g.ids = slices.Delete(g.ids, i, i+1)
			}
			after = after[1:]
		default:
			before, after = before[1:], after[1:]
		}
	}
	g.ids = slices.Delete(g.ids, 0, max(0, len(g.ids)-goneLimit))
}

// compareFirst compares the first ids of two lists, of which one may be empty.
func compareFirst(a, b []offer.Unit) int {
	switch {
	case len(a) == 0:
		return 1
	case len(b) == 0:
		return -1
	}
	return strings.Compare(a[0].ID, b[0].ID)
}

// has says whether the id was listed once and is no more.
func (g *gone) has(id string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Contains(g.ids, id)
}
