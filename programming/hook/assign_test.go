package hook_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"b-com.com/accelerator-device-plugin/programming/fpga"
	"b-com.com/accelerator-device-plugin/programming/hook"
	bits "b-com.com/accelerator-device-plugin/test/bitstreamtest"
	"b-com.com/accelerator-device-plugin/test/compare"
	"b-com.com/accelerator-device-plugin/test/must"
)

// cardOf parses a card of the form "I:A,B": its interface and its ports' AFUs.
func cardOf(i int, text string) fpga.Card {
	id, afus, _ := strings.Cut(text, ":")
	card := fpga.Card{Address: fmt.Sprintf("0000:%02x:00.0", i), InterfaceID: id}
	for n, afu := range strings.Split(afus, ",") {
		card.Ports = append(card.Ports, fpga.Port{Name: fmt.Sprintf("dfl-port.%d", 10*i+n), Number: n, AFUID: afu})
	}
	return card
}

func boards(text string) (cards []fpga.Card) {
	for i, word := range strings.Fields(text) {
		cards = append(cards, cardOf(i, word))
	}
	return cards
}

func pairs(text string) (all []hook.Pair) {
	for word := range strings.FieldsSeq(text) {
		interfaceID, afu, _ := strings.Cut(word, ":")
		all = append(all, hook.NewPair(interfaceID, afu))
	}
	return all
}

// show formats placements. For each pair, it gives the card and the port, followed by ! if it must be programmed.
func show(placements []hook.Placement) string {
	var words []string
	for _, p := range placements {
		word := fmt.Sprintf("%s.%d", strings.TrimLeft(strings.TrimSuffix(strings.TrimPrefix(p.Card(), "0000:"), ":00.0"), "0")+"", p.Port())
		if strings.HasPrefix(word, ".") {
			word = "0" + word
		}
		if !p.Loaded() {
			word += "!"
		}
		words = append(words, word)
	}
	return strings.Join(words, " ")
}

func TestAssign(t *testing.T) {
	for _, test := range []struct{ name, pairs, cards, want, err string }{
		{"loaded", "I:A", "I:A", "0.0", ""},
		{"not loaded", "I:B", "I:A", "0.0!", ""},
		{"the card of the interface", "J:A", "I:A J:B", "1.0!", ""},
		{"two pairs of one region, two cards", "I:A I:B", "I:C I:C", "0.0! 1.0!", ""},
		{"two equal pairs", "I:A I:A", "I:A I:A", "0.0 1.0", ""},
		{"two equal pairs, one loaded", "I:A I:A", "I:C I:A", "0.0! 1.0", ""},
		{"a loaded card is kept for its pair", "I:B I:A", "I:A I:C", "1.0! 0.0", ""},
		{"loaded crosswise", "I:A I:B", "I:B I:A", "1.0 0.0", ""},
		{"a card more than pairs", "I:B", "I:A I:B", "1.0", ""},
		{"the port that has the AFU", "I:B", "I:A,B", "0.1", ""},
		{"the lowest port", "I:C", "I:A,B", "0.0!", ""},
		{"one card for one pair only", "I:A I:B", "I:A,B I:C", "0.0 1.0!", ""},
		{"an AOCX cannot be seen", "I:" + bits.OpenCL, "I:" + bits.OpenCL, "0.0!", ""},
		{"no interface", "I:A", ":A", "", "no card is left for interface I"},
		{"another interface", "I:A", "J:A", "", "00:00.0 (interface J)"},
		{"a pair more than cards", "I:A I:B", "I:A", "", "no card is left for interface I"},
		{"no card", "I:A", "", "", "no card is left for interface I"},
	} {
		t.Run(test.name, func(t *testing.T) {
			placements, err := hook.Assign(pairs(test.pairs), boards(test.cards))
			if got := show(placements); got != test.want || (err == nil) != (test.err == "") || err != nil && !strings.Contains(err.Error(), test.err) {
				t.Errorf("%q, %v, want %q, %q", got, err, test.want, test.err)
			}
		})
	}
}

// Whatever the pairs and cards are, no card is assigned two pairs, each card has its pair's interface, the result stays
// the same after some of the cards have been programmed, and an error means that there are too few cards.
func TestAssignProperties(t *testing.T) {
	r := rand.New(rand.NewPCG(18, 7))
	pick := func(words ...string) string { return words[r.IntN(len(words))] }
	failed, programmed := 0, 0
	for range 20_000 {
		var wanted []hook.Pair
		for range 1 + r.IntN(4) {
			wanted = append(wanted, hook.NewPair(pick("I", "I", "J"), pick("A", "B", "C")))
		}
		var cards []fpga.Card
		for i := range r.IntN(6) {
			afus := []string{pick("A", "B", "C", "D", "")}
			for range r.IntN(3) {
				afus = append(afus, pick("A", "B", "C", "D", ""))
			}
			cards = append(cards, cardOf(i, pick("I", "I", "J", "")+":"+strings.Join(afus, ",")))
		}
		placements, err := hook.Assign(wanted, cards)
		if few := tooFew(wanted, cards); few != (err != nil) {
			t.Fatalf("%v on %v: error %v, too few cards: %v", wanted, cards, err, few)
		}
		if err != nil {
			failed++
			continue
		}
		seen := map[string]bool{}
		for i, p := range placements {
			card := cards[slices.IndexFunc(cards, func(c fpga.Card) bool { return c.Address == p.Card() })]
			if seen[p.Card()] || card.InterfaceID != wanted[i].Fields()[1] || len(placements) != len(wanted) {
				t.Fatalf("%v on %v: %s", wanted, cards, show(placements))
			}
			seen[p.Card()] = true
		}
		// Program some of the cards.
		after := slices.Clone(cards)
		all := true
		for i, p := range placements {
			at := slices.IndexFunc(after, func(c fpga.Card) bool { return c.Address == p.Card() })
			if p.Loaded() {
				continue
			}
			if programmed++; r.IntN(3) == 0 {
				all = false
				continue
			}
			after[at].Ports = slices.Clone(after[at].Ports)
			after[at].Ports[p.Port()].AFUID = wanted[i].Fields()[2]
		}
		again := must.Value(hook.Assign(wanted, after))(t)
		for i := range again {
			if again[i].Card() != placements[i].Card() || again[i].Port() != placements[i].Port() || all && !again[i].Loaded() {
				t.Fatalf("%v on %v: %s, after programming of %v: %s\n%s", wanted, cards, show(placements), after, show(again), cmp.Diff(cards, after))
			}
		}
	}
	if failed < 500 || programmed < 500 {
		t.Errorf("%d failed, %d programmed: the test shows little", failed, programmed)
	}
}

// TestAssignMany tries as many pairs as fit into config.json.
func TestAssignMany(t *testing.T) {
	var wanted []hook.Pair
	for i := range 200_000 {
		wanted = append(wanted, hook.NewPair("I", fmt.Sprintf("%08x", i)))
	}
	compare.Error(t, "Assign", "", compare.ErrorOf(hook.Assign(wanted, boards("I:A I:B"))))
}

func tooFew(wanted []hook.Pair, cards []fpga.Card) bool {
	free := map[string]int{}
	for _, c := range cards {
		free[c.InterfaceID]++
	}
	for _, p := range wanted {
		if free[p.Fields()[1]]--; free[p.Fields()[1]] < 0 {
			return true
		}
	}
	return false
}
