// Package prefer chooses devices: it finds the free devices of a resource that suit a container best, for
// GetPreferredAllocation of the device plugin API.
//
// It is pure: it owns no state, reads nothing and never blocks. The result does not depend on the order of the devices
// in the arguments.
//
// # The choice
//
// Packed takes devices that are close together, and leaves the other cards whole for later requests. It takes one card
// after the other. The cards from which the container has devices already come first, then the card that offers the
// most of what is still needed, so that the choice needs the fewest cards. Among equal cards it prefers one on a NUMA
// node that is used already, or on which the rest fits, then one with fewer degraded devices, then one that is partly
// held anyway, then the one with the fewest free devices. No NUMA node (-1) counts as a node of its own.
//
// Spread is for devices that should not fail together or share a link. It takes one device after the other, each from
// the card from which the fewest are chosen, so that the choice covers as many cards as possible, as evenly as
// possible. Among equal cards it prefers a healthy device, then one with fewer neighbours that are held or unhealthy,
// then one on a NUMA node that is used already or has enough devices for the rest, then one of a card that is partly
// held anyway.
//
// If all that is equal, the lowest id is chosen. Devices are on one card if they have the same Card and the same NUMA
// node, because the kubelet may ask for the devices of one NUMA node alone.
//
// The number of cards is always the best possible. The rest may not be: a choice that looks ahead could sometimes do
// with one NUMA node less.
//
// # The kubelet
//
// As of Kubernetes 1.37 (devicesToAllocate in pkg/kubelet/cm/devicemanager) the kubelet takes from the answer the
// devices that are available and not allocated yet. If they are not enough, it takes the rest itself, in random order.
// So an answer may contain fewer devices than requested. An error fails the pod, so it is returned only for a request
// that cannot be met. An available id that is not listed is left out of the answer, because Allocate would refuse it.
// An id that must be included is always in the answer, because it is allocated already.
//
// The caller must list an unhealthy device, but not as available.
package prefer
