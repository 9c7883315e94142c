// Package prefer chooses the free devices of a resource that suit a container best, for GetPreferredAllocation in the
// device plugin API.
//
// It is pure: it owns no state, reads no files and never blocks. The result doesn't depend on the order of the devices
// in the arguments.
//
// # The choice
//
// Packed takes devices that are close together and leaves the other cards whole for later requests. It goes card by
// card, starting with cards that the container already has devices from. After that, it takes the card that provides
// the most of what is still needed, so as to use the fewest cards. Among equal cards, it prefers one on a NUMA node
// that is already used or that has room for the rest, then one with fewer degraded devices, then one that is already
// partly held, then the one with the fewest free devices. No NUMA node (-1) counts as a separate node.
//
// Spread is for devices that shouldn't fail together or share a link. It goes device by device, each from the card with
// the fewest chosen devices so far, so as to cover as many cards as possible, as evenly as possible. Among equal cards,
// it prefers a healthy device, then one with fewer neighbours that are held or unhealthy, then one on a NUMA node that
// is already used or has enough devices for the rest, then one on a card that is already partly held.
//
// If all of that is equal, the lowest id wins. Devices are on the same card if they have the same Card and the same
// NUMA node, because the kubelet may ask for devices from a single NUMA node.
//
// The number of cards is always optimal. The rest may not be; an algorithm that looks ahead could sometimes use fewer
// NUMA nodes.
//
// # The kubelet
//
// As of Kubernetes 1.37 (devicesToAllocate in pkg/kubelet/cm/devicemanager), the kubelet only takes devices from the
// answer that are available and not yet allocated. If that isn't enough, it picks the rest itself, in random order. So
// an answer may contain fewer devices than requested. An error makes the pod fail, so it is only returned for requests
// that can't be met. An available id that isn't listed is left out of the answer, because Allocate would reject it. An
// id that must be included is always in the answer, because it is already allocated.
//
// Callers must include unhealthy devices in the list, but not among the available ones.
package prefer
