package recorder

import (
	"slices"
	"strings"
	"time"

	"b-com.com/accelerator-device-plugin/inventory"
)

// texts are the messages on the node, and on a pod that holds the device.
var texts = map[Reason]struct{ node, pod string }{
	DeviceAdded: {node: "{device} was added at {added}: {health}."},
	DeviceUnhealthy: {
		"{device} is {health} since {since}. It is given to {nobody}. {holders}",
		"{device} of container {containers} is {health} since {since}. The pod keeps running;" +
			" the device is not given to another one before this one ends and the device has recovered.",
	},
	DeviceDegraded: {node: "{device} is {health} since {since}. It is still given to containers."},
	DeviceRecovered: {
		"{device} is {health} again since {at}{after}.",
		"{device} of container {containers} is {health} again since {at}{after}.",
	},
	DeviceExcluded: {node: "{device} was taken out by the administrator at {at}: it is given to no container."},
	DeviceMoving:   {node: "{device} is to be offered as something else since {at}: that waits until nobody holds it."},
	DeviceRemoved:  {node: "{device} was removed from the node at {at}.{holder}"},
	DeviceRemovedInUse: {
		"{device} is gone from the node since {since}, and in use. It is given to {nobody}. {holders}",
		"{device} of container {containers} is gone from the node since {since}. The pod keeps running without it;" +
			" the device is not given to another one before this one ends.",
	},
	DeviceReplacedInUse: {
		"Another device is in the place of {device} since {at}, which is still in use. It is given to {nobody} until that ends. {holders}",
		"Another device is in the place of {device} of container {containers} since {at}. The pod keeps running;" +
			" what is there is not given to another one before this one ends.",
	},
	DeviceReturned: {
		"{device} is back in its place since {at}{after}: {health}. {holders}",
		"{device} of container {containers} is back in its place since {at}{after}: {health}. What the pod had open of it is lost:" +
			" it must open it again, or be restarted.",
	},
	DeviceReleased: {node: "{device}, which is gone from the node, is held no longer since {at}{after}."},
}

// releasedInPlace is the message if another device stays in the place of the released one.
const releasedInPlace = "The device that was in the place of {device} is held no longer. What is there now is {health} since {at}."

// forNode returns the message on the node. known reports whether pods has all pods that hold
// the device.
func (n news) forNode(pods []pod, known bool) string {
	if n.reason == DeviceReleased && n.was.kind == replacedInUse && n.is.kind.inSlot() {
		return n.fill(releasedInPlace, pods, known)
	}
	return n.fill(texts[n.reason].node, pods, known)
}

// forPod returns the message on a pod that holds the device.
func (n news) forPod(p pod) string { return n.fill(texts[n.reason].pod, []pod{p}, true) }

// fill replaces the placeholders of a text.
func (n news) fill(text string, pods []pod, known bool) string {
	d := n.is.device
	at := func(t time.Time) string { return t.UTC().Format(time.RFC3339) }
	name, health, since, after, nobody := "FPGA device "+d.ID, d.Health.String(), at(n.is.since), "", "no container"
	if d.OfferedAs != "" {
		name += " (" + d.OfferedAs + ")"
	}
	if len(d.Reasons) > 0 {
		health += " (" + strings.Join(n.is.causes(), ", ") + ")"
	}
	if n.is.found {
		since = "before " + since
	}
	if !n.was.found && !n.was.since.IsZero() {
		after = ", after " + n.is.since.Sub(n.was.since).Round(time.Second).String()
	}
	if len(pods) > 0 || !known {
		nobody = "no other container"
	}
	var names, containers []string
	for _, p := range pods {
		names, containers = append(names, p.namespace+"/"+p.name), append(containers, p.containers...)
	}
	holders := "Who holds it is not known."
	switch {
	case len(names) == 1:
		holders = "The pod " + names[0] + " holds it and keeps running."
	case len(names) > 1:
		holders = "The pods " + strings.Join(names, ", ") + " hold it and keep running."
	case known:
		holders = "No container holds it."
	}
	holder := " No container held it."
	switch {
	case n.is.kind == removed:
		holder = " Who holds it is not known: it stays listed until it is, or for the grace time."
	case d.OfferedAs == "":
		holder = ""
	case !known: // and there is no grace time
		holder = " Who held it is not known."
	}
	return clip(strings.NewReplacer(
		"{device}", name, "{health}", health, "{added}", at(n.is.added), "{since}", since, "{at}", at(n.is.since), "{after}", after,
		"{nobody}", nobody, "{holders}", holders, "{holder}", holder, "{containers}", strings.Join(containers, ", "),
	).Replace(text))
}

// warning reports whether the Event is a Warning.
func (n news) warning() bool {
	switch n.reason {
	case DeviceUnhealthy, DeviceDegraded, DeviceRemovedInUse, DeviceReplacedInUse:
		return true
	}
	return n.is.kind == removed
}

// maxMessage is the greatest length of a message, in bytes. It is that of the events API
// (NoteLengthLimit, pkg/apis/core/validation/events.go of Kubernetes).
const maxMessage = 1024

// clip shortens a message to maxMessage.
func clip(text string) string {
	if len(text) <= maxMessage {
		return text
	}
	return strings.ToValidUTF8(text[:maxMessage-len(" …")], "") + " …"
}

// pod is a pod that holds a device with some of its containers.
type pod struct {
	namespace, name string
	containers      []string
}

// podsOf returns the pods that hold a device. It returns false if the device was given out and
// a pod is not known.
func podsOf(holdings []inventory.Holding) ([]pod, bool) {
	var pods []pod
	known := true
	for _, h := range holdings {
		known = known && len(h.Holders) > 0
		for _, holder := range h.Holders {
			part := strings.SplitN(holder, "/", 3) // namespace/pod/container
			if len(part) < 3 {
				continue
			}
			i := slices.IndexFunc(pods, func(p pod) bool { return p.namespace == part[0] && p.name == part[1] })
			if i < 0 {
				pods = append(pods, pod{namespace: part[0], name: part[1]})
				i = len(pods) - 1
			}
			if !slices.Contains(pods[i].containers, part[2]) {
				pods[i].containers = append(pods[i].containers, part[2])
			}
		}
	}
	return pods, known
}
