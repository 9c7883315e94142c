// Package prefer chooses devices: it finds the best free units of a resource for a container, for
// GetPreferredAllocation of the device plugin API.
//
// It is pure: it owns no state, reads nothing and never blocks. The order of the units in the
// arguments makes no difference to the result.
//
// # The best choice
//
// A choice has a cost, a list of counts. Of two choices of one size, the better one has the
// smaller count at the first place where they differ. Of two choices with equal counts, the one
// with the lower ids is better, compared in order. So there is one best choice, and [Choose]
// always finds it.
//
//	packed: cards, nodes, degraded, broken, apart
//	spread: pairs, degraded, neighbours, nodes, broken
//
// The counts are:
//
//   - cards: cards of which at least one unit is chosen.
//   - pairs: pairs of chosen units that share a card. The fewest pairs are as many cards as
//     possible, as evenly as possible: 2 and 2 (two pairs) rather than 3 and 1 (three).
//   - nodes: NUMA nodes with at least one chosen unit. No node (-1) counts as one more.
//   - degraded: chosen units that are degraded.
//   - neighbours: for each chosen unit, the listed units of its card that are not available,
//     because they are held or unhealthy.
//   - broken: cards of which all listed units are available and some, but not all, are chosen.
//   - apart: pairs of free units on one card of which at least one is chosen, so that a later
//     request cannot have both. The fewest are the tightest fit: one unit is taken from the card
//     with two free units rather than from that with three.
//
// Packed is for containers whose units work together, and for later requests: distance counts
// first, then health, then the units that are left for others.
//
// Spread is for containers whose units should not fail together or share a link. Pairs count
// first because a card fails, is reset and is unplugged as a whole. A degraded card is slow, or
// the next to fail; another socket is better than that. Neighbours use the same link, and their
// faults can become those of the card. Spread also prefers few NUMA nodes: a socket is not a
// failure domain of its own.
//
// Units are on one card if they have the same Card and the same NUMA node, because the kubelet may
// ask for the units of one node alone.
//
// # The kubelet
//
// As of Kubernetes 1.37 (devicesToAllocate in pkg/kubelet/cm/devicemanager) it takes from the
// answer the units that are available and not allocated yet. If that is not enough, it takes the rest
// itself, in random order. So an answer may have fewer units, and an error, which fails the pod,
// is only for a request that cannot be met. An available id that is not listed is left out of the
// answer, because Allocate would refuse it. An id that must be included is in the answer in any
// case: it is allocated already.
//
// An unhealthy unit must be listed, but not available.
//
// # Time
//
// The time grows with the available units times the size: 64 of 1024 units on 256 cards take about
// 6 ms, 4 of 32 units on 8 cards less than 0.1 ms.
package prefer
