// Package prefer chooses devices: it finds good free units of a resource for a container, for
// GetPreferredAllocation of the device plugin API.
//
// It is pure: it owns no state, reads nothing and never blocks. The result does not depend on the order of the units
// in the arguments.
//
// # The choice
//
// Packed takes units that are close together, and leaves the other cards whole for later requests. It takes one card
// after the other: first the cards of which the container has units already, then a card that holds the most of what is
// still needed, so the choice needs the fewest cards. Of equal cards it takes one on a NUMA node that is used already,
// or on which the rest fits, then one with fewer degraded units, then one that is partly held anyway, then the one with
// the fewest free units. No NUMA node (-1) counts as a node of its own.
//
// Spread is for units that should not fail together or share a link. It takes one unit after the other, each from the
// card of which the fewest are chosen, so the choice has as many cards as possible, as evenly as possible. Of equal
// cards it takes a healthy unit, then one with fewer neighbours that are held or unhealthy, then one on a NUMA node
// that is used already or has enough units for the rest, then one of a card that is partly held anyway.
//
// If all that is equal, the lowest id is chosen. Units are on one card if they have the same Card and the same NUMA
// node, because the kubelet may ask for the units of one node alone.
//
// The number of cards is always the best one. The rest is only good: a choice that looks ahead could sometimes use a
// NUMA node less.
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
package prefer
