// Package prefer chooses which of a resource's free devices suit a container best, for the device plugin API's
// GetPreferredAllocation.
//
// It is pure: it owns no state, reads nothing and never blocks. The result doesn't depend on the order of the devices
// in the arguments.
//
// # The choice
//
// Packed takes devices that are close together and leaves the other cards whole for later requests. It takes one card
// after another. Cards that the container already has devices from come first, then the card that provides the most of
// what is still needed, so that the choice uses the fewest cards. Among equal cards it prefers one on a NUMA node that
// is already used, or that has room for the rest, then one with fewer degraded devices, then one that is already partly
// held, then the one with the fewest free devices. No NUMA node (-1) counts as a node of its own.
//
// Spread is for devices that shouldn't fail together or share a link. It takes one device after another, each from the
// card with the fewest chosen devices so far, so that the choice covers as many cards as possible, as evenly as
// possible. Among equal cards it prefers a healthy device, then one with fewer neighbours that are held or unhealthy,
// then one on a NUMA node that is already used or has enough devices for the rest, then one on a card that is already
// partly held.
//
// If all of that is equal, the lowest id is chosen. Devices are on the same card if they have the same Card and the
// same NUMA node, because the kubelet may ask for devices from a single NUMA node.
//
// The number of cards is always optimal. The rest may not be: an algorithm that looks ahead could sometimes use one
// NUMA node less.
//
// # The kubelet
//
// As of Kubernetes 1.37 (devicesToAllocate in pkg/kubelet/cm/devicemanager), the kubelet takes only the devices in the
// answer that are available and not yet allocated. If that isn't enough, it picks the rest itself, in random order. So
// an answer may contain fewer devices than requested. An error fails the pod, so it is returned only for a request that
// can't be met. An available id that isn't listed is left out of the answer, because Allocate would reject it. An id
// that must be included is always in the answer, because it is already allocated.
//
// The caller must list unhealthy devices, but not as available.
package prefer
