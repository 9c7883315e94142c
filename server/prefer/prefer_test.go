package prefer_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp/cmpopts"

	"b-com.com/accelerator-device-plugin/server/prefer"
	"b-com.com/accelerator-device-plugin/test/compare"
)

// question contains Choose's arguments except spread.
type question struct {
	listed          []prefer.Device
	available, must []string
	size            int
}

// draw parses a board: device IDs, with | between NUMA nodes 0, 1, and so on. An ID's first letter is its card; an ID
// that starts with a digit is on a card of its own. ? after | or at the start means no NUMA node. An ID can be followed
// by - (held by others), * (must) or ! (degraded).
func draw(board string, size int) question {
	q := question{size: size}
	for node, units := range strings.Split(board, "|") {
		if strings.HasPrefix(units, "?") {
			units, node = units[1:], -1
		}
		for _, word := range strings.Fields(units) {
			id := strings.TrimRight(word, "-*!")
			card := id[:1]
			if card <= "9" {
				card = ""
			}
			q.listed = append(q.listed, prefer.Device{ID: id, Card: card, NUMANode: node, Degraded: strings.Contains(word, "!")})
			if !strings.Contains(word, "-") {
				q.available = append(q.available, id)
			}
			if strings.Contains(word, "*") {
				q.must = append(q.must, id)
			}
		}
	}
	return q
}

func TestChoose(t *testing.T) {
	for _, tc := range []struct {
		name           string
		board          string
		size           int
		packed, spread string
	}{
		{"no choice", "a0 | b0!", 2, "a0 b0", "a0 b0"},
		{"nothing wanted", "a0 a1", 0, "", ""},
		{"lowest id", "b0 a0", 1, "a0", "a0"},
		{"must", "a0 b0*", 1, "b0", "b0"},
		{"must, although degraded", "a0 a1 | b0- b1!*", 1, "b1", "b1"},
		{"musts alone", "a0* b0* c0 c1", 2, "a0 b0", "a0 b0"},
		{"goes with the must", "a0 a1 b0* b1 b2", 2, "b0 b1", "a0 b0"},
		{"goes with two musts", "a0* b0* b1 c0", 3, "a0 b0 b1", "a0 b0 c0"},
		{"card of the must before node, health", "a0 | b0!* b1! c0", 2, "b0 b1", "b0 c0"},

		{"one card or two", "a0 b0 b1 c0", 2, "b0 b1", "a0 c0"},
		{"one card before one node", "a0 b0 | c0 c1-| d0 d1", 2, "d0 d1", "a0 b0"},
		{"one card before healthy", "a0 b0 c0! c1!", 2, "c0 c1", "a0 b0"},
		{"one card before whole", "a0 a1 a2 b0 b1- c0 c1-", 2, "a0 a1", "a0 b0"},
		{"two cards rather than three", "a0 a1 b0 b1 b2 c0 d0", 5, "a0 a1 b0 b1 b2", "a0 a1 b0 c0 d0"},
		{"cards that fit exactly", "a0 a1 a2 a3 b0 b1 b2 b3 c0 c1", 6, "a0 a1 a2 a3 c0 c1", "a0 a1 b0 b1 c0 c1"},

		{"one node", "a0 | b0 | c0 d0", 2, "c0 d0", "c0 d0"},
		{"no NUMA node counts as one more node", "? a0 | b0 c0", 2, "b0 c0", "b0 c0"},
		{"no NUMA node, for other cards", "a0 |? b0 c0", 2, "b0 c0", "b0 c0"},
		{"one node or healthy", "a0 | b0 c0!", 2, "b0 c0", "a0 b0"},
		{"node before whole", "a0 | b0 b1 c0 c1 c2-", 3, "b0 b1 c0", "a0 b0 c0"},
		{"node before broken and apart", "a0 | b0 b1 c0 c1", 2, "b0 b1", "b0 c0"},

		{"healthy unit of a card", "a0! a1 a2", 2, "a1 a2", "a1 a2"},
		{"healthy before whole", "a0 a1 b0! b1-", 1, "a0", "a0"},
		{"degraded and held by others", "a0! b0 b1-", 1, "b0", "b0"},
		{"fewest degraded of a must's card", "a0!* a1! a2 b0", 2, "a0 a2", "a0 b0"},

		{"whole cards stay whole", "a0 a1 b0 b1-", 1, "b0", "a0"},
		{"broken card or own card", "a0 a1- b0 b1", 1, "a0", "b0"},
		{"a whole card taken whole is not broken", "a0 a1 a2 b0 b1", 2, "b0 b1", "a0 b0"},
		{"single ports leave whole cards whole", "a0 a1 b0 c0 d0 d1-", 2, "a0 a1", "b0 c0"},
		{"one broken card", "a0 a1 a2 a3 b0 b1 b2 b3", 6, "a0 a1 a2 a3 b0 b1", "a0 a1 a2 b0 b1 b2"},

		{"tightest fit", "a0 a1 a2 a3- b0 b1 b2-", 1, "b0", "a0"},
		{"one card is left with two", "a0 a1 a2 a3- b0 b1 b2 b3-", 4, "a0 a1 a2 b0", "a0 a1 b0 b1"},
		{"one card is left with two, with higher ids", "a0 a1 a2 a3- b0 b1* b2* b3-", 4, "a0 b0 b1 b2", "a0 a1 b1 b2"},

		{"evenly", "a0 a1 a2 a3 b0 b1 b2 b3", 4, "a0 a1 a2 a3", "a0 a1 b0 b1"},
		{"evenly beside musts", "a0* a1* a2 b0 b1", 4, "a0 a1 a2 b0", "a0 a1 b0 b1"},
		{"own cards before one node", "a0 | b0 b1- c0", 2, "b0 c0", "a0 c0"},
		{"fewer neighbours", "a0 a1- a2- b0 b1-", 1, "a0", "b0"},

		{"pool", "?0 1 10 2", 3, "0 1 10", "0 1 10"},
		{"pool with a bad unit", "?0! 1 2-", 1, "1", "1"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			q := draw(tc.board, tc.size)
			for spread, want := range map[bool]string{false: tc.packed, true: tc.spread} {
				got, err := prefer.Choose(q.listed, q.available, q.must, q.size, spread)
				compare.NoError(t, fmt.Sprintf("spread %t", spread), err)
				compare.Values(t, fmt.Sprintf("spread %t", spread), strings.Fields(want), got, cmpopts.EquateEmpty())
			}
		})
	}
}

// TestChooseUnusual passes arguments that shouldn't occur, and checks the result both for packing and for spreading.
func TestChooseUnusual(t *testing.T) {
	a0, a1, b0 := prefer.Device{ID: "a0", Card: "a"}, prefer.Device{ID: "a1", Card: "a"}, prefer.Device{ID: "b0", Card: "b", NUMANode: 1}
	for _, tc := range []struct {
		name string
		question
		want []string
		err  string
	}{
		{"nothing", question{}, []string{}, ""},
		{"nothing available", question{listed: []prefer.Device{a0}, size: 1}, []string{}, ""},
		{"available twice", question{[]prefer.Device{a0, b0}, []string{"a0", "a0", "b0"}, nil, 2}, []string{"a0", "b0"}, ""},
		{"must twice", question{[]prefer.Device{a0, b0}, []string{"a0", "b0"}, []string{"b0", "b0"}, 1}, []string{"b0"}, ""},
		{"not listed is left out", question{[]prefer.Device{b0}, []string{"a", "b0"}, nil, 2}, []string{"b0"}, ""},
		{"nothing listed", question{nil, []string{"c", "a", "b"}, []string{"b"}, 2}, []string{"b"}, ""},
		{"must is not listed", question{[]prefer.Device{a0}, []string{"a0", "gone"}, []string{"gone"}, 2}, []string{"a0", "gone"}, ""},
		{"must is not available", question{[]prefer.Device{a0, a1, b0}, []string{"a0", "b0"}, []string{"a1"}, 1}, []string{"a1"}, ""},
		{"must is neither", question{[]prefer.Device{a0}, []string{"a0"}, []string{"gone"}, 1}, []string{"gone"}, ""},
		{"more than there is", question{[]prefer.Device{a0, a1, b0}, []string{"b0", "a0"}, nil, 1 << 30}, []string{"a0", "b0"}, ""},
		{"negative size", question{[]prefer.Device{a0}, []string{"a0"}, nil, -1}, nil, "allocation size: found -1, want 0 or more"},
		{"more musts than room", question{[]prefer.Device{a0, b0}, []string{"a0", "b0"}, []string{"a0", "b0"}, 1}, nil, "devices that must be included: found 2, want at most 1, the allocation size"},
		{"more musts than room, none listed", question{nil, nil, []string{"a0", "b0"}, 1}, nil, "devices that must be included: found 2, want at most 1, the allocation size"},
		{"a must and no room", question{[]prefer.Device{a0}, []string{"a0"}, []string{"a0"}, 0}, nil, "devices that must be included: found 1, want at most 0, the allocation size"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			for _, spread := range []bool{false, true} {
				got, err := prefer.Choose(tc.listed, tc.available, tc.must, tc.size, spread)
				compare.Outcome(t, fmt.Sprintf("spread %t", spread), tc.err, err)
				compare.Values(t, fmt.Sprintf("spread %t", spread), tc.want, got, cmpopts.EquateEmpty())
			}
		})
	}
}
