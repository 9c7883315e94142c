// Package prefer chooses devices: it answers the kubelet's question which of the
// free units of a resource a container is best given (GetPreferredAllocation).
//
// It is pure: it owns no state, reads nothing and never blocks. The answer
// depends on what was asked alone, not on the order in which it was asked.
//
// # What is best
//
// A choice has a cost, a list of counts. Of two choices of one size the better
// one has the smaller count at the first place where they differ; where they
// differ nowhere, the one with the lowest ids, compared in order as the list of
// the resource is. So there is one best choice, and [Choose] always finds it.
//
//	packed: missing, unlisted, cards, nodes, degraded, broken, apart
//	spread: missing, unlisted, pairs, degraded, neighbours, nodes, broken
//
// What is counted:
//
//   - missing: units that must be included and are not. There is room for all of
//     them, so the best choice has none missing.
//   - unlisted: units that are not in the list any more. The kubelet has not
//     heard of that yet, and Allocate will refuse them.
//   - cards: cards of which at least one unit is chosen.
//   - pairs: pairs of chosen units that share a card. Fewest pairs means as many
//     cards as possible, and as evenly as possible: 2 and 2 (two pairs) rather
//     than 3 and 1 (three).
//   - nodes: NUMA nodes with at least one chosen unit. No node (-1) counts as one
//     more: units of which nobody knows where they are, are near to no other.
//   - degraded: units that are degraded.
//   - neighbours: for each chosen unit, the listed units of its card that are not
//     available: others hold them, or they are unhealthy.
//   - broken: whole cards that are broken open. A card is whole when all its listed
//     units are available; it is broken open when some of them, but not all, are
//     chosen.
//   - apart: pairs of free units on one card that a later request finds no more,
//     because one of them or both are chosen. Fewest means the tightest fit: one
//     unit is taken from the card with two free ones rather than from that with
//     three, and four are taken as 3 and 1 rather than as 2 and 2.
//
// Packed is for those whose units work together, and for those who come later:
// the order is that of distance, then health, then what is left for others.
//
// Spread is for those who want units that do not fail together and do not share
// a link. Pairs come first because a card fails, is reset and is pulled as a
// whole. A degraded card is the next to fail or is slow already: going to another
// socket is better than that. Then neighbours, who take their share of the
// link and whose trouble can become that of the card; for requests of one unit
// this is what spreads pods over cards. Nodes are few in spread, too: a socket is no
// failure domain of its own, as the host goes with it, and crossing sockets costs
// what spreading was to gain.
//
// A card is what the units of one Card on one NUMA node are. A PCI function is on
// one node, so this is the card; were it not, the kubelet, which may ask for the
// units of one node alone, would make every such card look broken open.
//
// # What the kubelet asks
//
// As of Kubernetes 1.37 (devicesToAllocate in pkg/kubelet/cm/devicemanager) it
// takes of the answer what is available and not allocated yet, until it has
// enough; what is missing then it takes itself, in the random order of a map. So
// an answer with fewer units is no fault, and an error, which fails the pod, is
// only for what cannot be met. The cases that should not occur:
//
//   - an id twice, in any of the three lists: as once. Of units that are listed
//     twice with different facts, the first in the order of the fields counts.
//   - an available id that is not listed: chosen when all that are listed do not
//     suffice. It has a card of its own, on no NUMA node.
//   - a must that is not available, or not listed: chosen all the same. It is
//     allocated already; the kubelet only asks what goes well with it.
//   - a size of 0: no units, as long as none must be included.
//   - a size beyond what is available: all there is.
//   - a negative size, a size below the number of musts, a policy that there is
//     not: an error.
//
// Choose knows healthy and degraded. A unit that is unhealthy belongs in the
// list, so that its card is not taken for whole, and not in available.
//
// # What it costs
//
// No heuristic: costs add up over cards and nodes, so of the cards looked at so
// far only the best choice of each size need be remembered (best.go). The time
// grows with the available units times the size. For 64 of 1024 units on 256
// cards it is 2 to 3 ms, for 4 of 32 units on 8 cards less than 0.1 ms.
package prefer
