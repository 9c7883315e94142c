package hook

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"b-com.com/accelerator-device-plugin/programming"
	"b-com.com/accelerator-device-plugin/programming/fpga"
)

// placement is a requested pair of interface and AFU, with the card and port assigned to it.
type placement struct {
	pair
	card   fpga.Card
	port   fpga.Port
	loaded bool   // the port already has the AFU
	device string // for the log: the ID of the allocated device, which is the card or one of its ports
}

// assign assigns a card to each requested pair of interface and AFU, and returns the placements in the order of pairs.
// Each card must have a port, and gets at most one pair. A card that already has one of the requested AFUs keeps it.
// The remaining pairs get the remaining cards, in order.
//
// The result must stay the same while the cards are being programmed. So assign first decides which AFU each card gets,
// treating equal pairs as one, and then distributes those cards among the equal pairs. The first step loops over the
// cards rather than the pairs, because a card with several ports can have several AFUs.
func assign(pairs []pair, cards []fpga.Card) ([]placement, error) {
	type demand struct {
		pair // the first of several equal pairs
		open int
	}
	var demands []demand
	index := map[[2]string]int{} // index into demands, by IDs. It is a map because a pod can request 100,000 pairs.
	for _, p := range pairs {
		ids := [2]string{p.interfaceID, p.afu}
		if _, ok := index[ids]; !ok {
			index[ids] = len(demands)
			demands = append(demands, demand{pair: p})
		}
		demands[index[ids]].open++
	}
	gets := make([]int, len(cards)) // a demand's index, or -1
	for i, card := range cards {
		gets[i] = slices.IndexFunc(demands, func(d demand) bool {
			_, loaded := choosePort(card, d.pair)
			return loaded && d.open > 0
		})
		if gets[i] >= 0 {
			demands[gets[i]].open--
		}
	}
	for n := range demands {
		d := &demands[n]
		for i, card := range cards {
			if d.open > 0 && gets[i] < 0 && card.InterfaceID == d.interfaceID {
				gets[i] = n
				d.open--
			}
		}
	}
	var placements []placement
	for _, p := range pairs {
		i := slices.Index(gets, index[[2]string{p.interfaceID, p.afu}])
		if i < 0 {
			return nil, fmt.Errorf("%s: no card is left for interface %s: request as many cards as the env has pairs; the container has %s",
				p.name, p.interfaceID, describe(cards))
		}
		gets[i] = -1
		port, loaded := choosePort(cards[i], p)
		placements = append(placements, placement{p, cards[i], port, loaded, cards[i].ID()})
	}
	return placements, nil
}

// choosePort returns the port to use for a pair: one that already has the AFU, or else the card's first port.
func choosePort(card fpga.Card, p pair) (port fpga.Port, loaded bool) {
	for _, port := range card.Ports {
		if card.InterfaceID == p.interfaceID && port.AFUID == p.afu && p.afu != programming.OpenCL {
			return port, true
		}
	}
	return card.Ports[0], false
}

// describe returns the cards and their interfaces as text.
func describe(cards []fpga.Card) string {
	var all []string
	for _, c := range cards {
		all = append(all, fmt.Sprintf("%s (interface %s)", c.ID(), cmp.Or(c.InterfaceID, "none")))
	}
	return strings.Join(all, ", ")
}
