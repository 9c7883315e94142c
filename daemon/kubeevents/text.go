package kubeevents

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"b-com.com/accelerator-device-plugin/inventory"
)

// texts contains the messages for Events on the node and on each pod that holds the device.
var texts = map[Reason]struct{ node, pod string }{
	DeviceAdded: {node: "{device} was added at {since}: {health}."},
	DeviceUnhealthy: {
		"{device} has been {health} since {since}. It is not allocated to {none}. {holders}",
		"{device} of container {containers} has been {health} since {since}. The pod keeps running." +
			" No other pod gets the device until this pod has ended and the device has recovered.",
	},
	DeviceDegraded: {node: "{device} has been {health} since {since}. It can still be allocated to containers."},
	DeviceRecovered: {
		"{device} recovered at {since}{after}: {health}.",
		"{device} of container {containers} recovered at {since}{after}: {health}.",
	},
	DeviceExcluded: {node: "{device} was excluded by the settings at {since}. It is not allocated to any container."},
	DeviceCordoned: {node: "{device} has been out of service since {since}{cordon}. It is not allocated to {none}. {holders}"},
	DeviceMoving: {
		node: "{device} has been waiting since {since} to move to another resource. It moves as soon as no container uses it.",
	},
	DeviceRemoved: {node: "{device} was removed from the node at {since}. {holders}"},
	DeviceRemovedInUse: {
		"{device} has been missing from the node since {since}, and {use}. It is not allocated to {none}. {holders}",
		"{device} of container {containers} has been missing from the node since {since}. The pod keeps running without it." +
			" No other pod gets the device until this pod has ended.",
	},
	DeviceReplacedInUse: {
		"{device} was replaced by another device at {since}, and {use}. {holders}" +
			" The new device is not allocated until the old one is no longer in use.",
		"{device} of container {containers} was replaced by another device at {since}. The pod keeps running." +
			" No other pod gets the new device until this pod has ended.",
	},
	DeviceReturned: {
		"{device} returned at {since}{after}: {health}. {holders}",
		"{device} of container {containers} returned at {since}{after}: {health}." +
			" Device nodes that the pod has open no longer work: it must open them again or be restarted.",
	},
	DeviceHeldTwice: {
		"{device} has been allocated to several containers at once since {since}. {holders} Delete all of their pods except one, and report this.",
		"{device} of container {containers} has also been allocated to another pod since {since}. Delete one of the two pods, and report this.",
	},
	DeviceMissing: {
		node: "{device} has been missing since {since}: it has not been found since the node or the plugin was last started, or it had a fault and then left the node.",
	},
	DeviceReleased: {node: "{device}, which was removed from the node, was released at {since}{after}."},
}

// maxNamed is the maximum number of pods listed in a message. Without it, a message could become very long, because the
// API server doesn't limit the length of messages in core/v1 Events.
const maxNamed = 8

// releasedInPlace is the DeviceReleased message if another device has replaced the released one.
const releasedInPlace = "The previous {device} is no longer in use. The device in its place has been {health} since {since}."

// knowledge is how much is known about a device's holders.
type knowledge uint8

const (
	unknown knowledge = iota // the kubelet hasn't answered
	unnamed                  // the device was allocated, but the kubelet hasn't reported the container yet
	known
)

// onNode returns the message for the Event on the node.
func (n change) onNode(by pods, k knowledge) string {
	if n.reason == DeviceReleased && n.is.kind.inSlot() {
		return n.fill(releasedInPlace, by, k)
	}
	return n.fill(texts[n.reason].node, by, k)
}

// onPod returns the message for the Event on a pod whose containers hold the device.
func (n change) onPod(pod string, containers []string) string {
	return n.fill(texts[n.reason].pod, pods{pod: containers}, known)
}

// fill replaces the placeholders in text, such as {device}.
func (n change) fill(text string, by pods, k knowledge) string {
	d := n.is.device
	name, health, since, after := "FPGA device "+d.ID, d.Health.String(), n.is.since.UTC().Format(time.RFC3339), ""
	if d.OfferedAs != "" {
		name += " (" + d.OfferedAs + ")"
	}
	if len(d.Reasons) > 0 {
		reasons := strings.Join(d.Reasons, ", ")
		health += " (" + strings.ReplaceAll(reasons, recovering, inventory.ReasonRecovering+" from ") + ")"
	}
	if n.is.found {
		since = "before " + since
	}
	if !n.was.found && !n.was.since.IsZero() && n.was.kind != moving { // how long it was moving doesn't matter
		after = " after " + n.is.since.Sub(n.was.since).Round(time.Second).String()
	}
	names, containers := slices.Sorted(maps.Keys(by)), slices.Concat(slices.Collect(maps.Values(by))...)
	if more := len(names) - maxNamed; more > 0 {
		names = append(names[:maxNamed], fmt.Sprintf("%d more", more))
	}
	none, use, holders := "any other container", "is still in use", "It is not known which pod uses it."
	switch {
	case len(names) == 1:
		holders = "The pod " + names[0] + " uses it and keeps running."
	case len(names) > 1:
		holders = "The pods " + strings.Join(names, ", ") + " use it and keep running."
	case k == unnamed:
		use = "may still be in use"
		holders = "It was allocated less than a minute ago, and the kubelet has not reported its container yet."
	case k == known:
		none, holders = "any container", "No container uses it."
	}
	return strings.NewReplacer("{device}", name, "{health}", health, "{since}", since, "{after}", after,
		"{use}", use, "{none}", none, "{holders}", holders, "{cordon}", n.cordon,
		"{containers}", strings.Join(containers, ", ")).Replace(text)
}

// warning reports whether the Event is a Warning.
func (n change) warning() bool {
	switch n.reason {
	case DeviceUnhealthy, DeviceDegraded, DeviceRemovedInUse, DeviceReplacedInUse, DeviceHeldTwice, DeviceMissing:
		return true
	}
	return n.is.kind == removed
}

// pods maps each pod (NAMESPACE/NAME) to its containers that hold the device.
type pods map[string][]string

// podsOf returns the pods that hold a device.
func podsOf(holdings []inventory.Holding) (pods, knowledge) {
	all, k := make(pods), known
	for _, h := range holdings {
		if len(h.Holders) == 0 {
			k = unnamed
		}
		for _, holder := range h.Holders { // NAMESPACE/POD/CONTAINER
			if i := strings.LastIndexByte(holder, '/'); i > 0 {
				all[holder[:i]] = append(all[holder[:i]], holder[i+1:])
			}
		}
	}
	return all, k
}
