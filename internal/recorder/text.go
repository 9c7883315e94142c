package recorder

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"b-com.com/accelerator-device-plugin/inventory"
)

// texts are the messages on the node, and on a pod that holds the device.
var texts = map[Reason]struct{ node, pod string }{
	DeviceAdded: {node: "{device} was added at {since}: {health}."},
	DeviceUnhealthy: {
		"{device} is {health} since {since}. It is given to {nobody}. {holders}",
		"{device} of container {containers} is {health} since {since}. The pod keeps running;" +
			" the device is not given to another one before this one ends and the device has recovered.",
	},
	DeviceDegraded: {node: "{device} is {health} since {since}. It is still given to containers."},
	DeviceRecovered: {
		"{device} is {health} again since {since}{after}.",
		"{device} of container {containers} is {health} again since {since}{after}.",
	},
	DeviceExcluded: {node: "{device} was taken out by the administrator at {since}: it is given to no container."},
	DeviceCordoned: {node: "{device} is out of service since {since}{cordon}. It is given to {nobody}. {holders}"},
	DeviceMoving:   {node: "{device} is to be offered as something else since {since}: that waits until nobody holds it."},
	DeviceRemoved:  {node: "{device} was removed from the node at {since}. {holders}"},
	DeviceRemovedInUse: {
		"{device} is gone from the node since {since}, and {use}. It is given to {nobody}. {holders}",
		"{device} of container {containers} is gone from the node since {since}. The pod keeps running without it;" +
			" the device is not given to another one before this one ends.",
	},
	DeviceReplacedInUse: {
		"Another device is in the place of {device} since {since}, which {still}." +
			" It is given to {nobody} until that ends. {holders}",
		"Another device is in the place of {device} of container {containers} since {since}. The pod keeps running;" +
			" what is there is not given to another one before this one ends.",
	},
	DeviceReturned: {
		"{device} is back in its place since {since}{after}: {health}. {holders}",
		"{device} of container {containers} is back in its place since {since}{after}: {health}." +
			" What the pod had open of it is lost: it must open it again, or be restarted.",
	},
	DeviceReleased: {node: "{device}, which is gone from the node, is held no longer since {since}{after}."},
}

// maxNamed is the number of pods that a message names. The API server does not limit messages of
// core/v1.
const maxNamed = 8

// releasedInPlace is the message if another device stays in the place of the released one.
const releasedInPlace = "The device that was in the place of {device} is held no longer." +
	" What is there now is {health} since {since}."

// knowledge is how much is known about the holders of a device.
type knowledge uint8

const (
	unknown knowledge = iota // the kubelet has not answered
	unnamed                  // the device was given out, and the kubelet has not named the container yet
	known
)

// onNode returns the message on the node.
func (n news) onNode(by pods, k knowledge) string {
	if n.reason == DeviceReleased && n.is.kind.inSlot() {
		return n.fill(releasedInPlace, by, k)
	}
	return n.fill(texts[n.reason].node, by, k)
}

// onPod returns the message on a pod that holds the device with these containers.
func (n news) onPod(pod string, containers []string) string {
	return n.fill(texts[n.reason].pod, pods{pod: containers}, known)
}

// fill replaces the placeholders of a text.
func (n news) fill(text string, by pods, k knowledge) string {
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
	if !n.was.found && !n.was.since.IsZero() {
		after = ", after " + n.is.since.Sub(n.was.since).Round(time.Second).String()
	}
	names, containers := slices.Sorted(maps.Keys(by)), slices.Concat(slices.Collect(maps.Values(by))...)
	if more := len(names) - maxNamed; more > 0 {
		names = append(names[:maxNamed], fmt.Sprintf("%d more", more))
	}
	nobody, holders := "no other container", "Who holds it is not known."
	use, still := "in use", "is still in use"
	switch {
	case len(names) == 1:
		holders = "The pod " + names[0] + " holds it and keeps running."
	case len(names) > 1:
		holders = "The pods " + strings.Join(names, ", ") + " hold it and keep running."
	case k == unnamed:
		use, still = "perhaps in use", "may still be in use"
		holders = "It was given out less than a minute ago, and the kubelet has not named a container that has it."
	case k == known:
		nobody, holders = "no container", "No container holds it."
	}
	return strings.NewReplacer("{device}", name, "{health}", health, "{since}", since, "{after}", after,
		"{use}", use, "{still}", still, "{nobody}", nobody, "{holders}", holders, "{cordon}", n.cordon,
		"{containers}", strings.Join(containers, ", ")).Replace(text)
}

// warning reports whether the Event is a Warning.
func (n news) warning() bool {
	switch n.reason {
	case DeviceUnhealthy, DeviceDegraded, DeviceRemovedInUse, DeviceReplacedInUse:
		return true
	}
	return n.is.kind == removed
}

// pods has the containers that hold a device, by their pod: NAMESPACE/NAME.
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
