package recorder

import (
	"slices"
	"strings"
	"time"

	"b-com.com/accelerator-device-plugin/internal/apiserver"
	"b-com.com/accelerator-device-plugin/inventory"
)

// maxMessage is how long a message may be, in bytes: the events API has no room
// for more (NoteLengthLimit, pkg/apis/core/validation/events.go of Kubernetes).
const maxMessage = 1024

// pod holds a device with some of its containers.
type pod struct {
	namespace, name string
	containers      []string
}

func (p pod) object() apiserver.Object {
	return apiserver.Object{Kind: "Pod", Namespace: p.namespace, Name: p.name}
}

// podsOf lists the pods that hold a device. It is false where the device was given
// out, and it is not known to whom.
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

// String is as much as a list for people needs.
func (p pod) String() string { return p.namespace + "/" + p.name }

// warning says whether an Event is a Warning.
func (n news) warning() bool {
	switch n.reason {
	case DeviceUnhealthy, DeviceDegraded, DeviceRemovedInUse, DeviceReplacedInUse:
		return true
	case DeviceRemoved:
		return slices.Contains(n.is.device.Reasons, inventory.ReasonRemoved) // it is listed still
	}
	return false
}

func at(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// named is the device, and what it is offered as.
func (n news) named() string {
	if n.is.device.OfferedAs == "" {
		return "FPGA device " + n.is.device.ID
	}
	return "FPGA device " + n.is.device.ID + " (" + n.is.device.OfferedAs + ")"
}

// since is when it began, as far as that is known.
func (n news) since() string {
	if n.is.found {
		return "since before " + at(n.is.since)
	}
	return "since " + at(n.is.since)
}

// health is the state of the device with its causes.
func (n news) health() string {
	if len(n.is.device.Reasons) == 0 {
		return n.is.device.Health.String()
	}
	return n.is.device.Health.String() + " (" + strings.Join(n.is.causes(), ", ") + ")"
}

// before is how long the device was otherwise.
func (n news) before() string {
	if n.was.found || n.was.since.IsZero() {
		return ""
	}
	return ", after " + n.is.since.Sub(n.was.since).Round(time.Second).String()
}

// forNode is the message on the node.
func (n news) forNode(pods []pod, known bool) string {
	text := n.aboutDevice(len(pods) > 0, known)
	if n.forPods() && n.reason != DeviceRecovered {
		text += " " + holding(pods, known)
	}
	return clip(text)
}

// aboutDevice is what there is to say about the device. held is whether pods hold it,
// and known whether it is known who holds what.
func (n news) aboutDevice(held, known bool) string {
	name, health, from := n.named(), n.health(), at(n.is.since)
	nobody := "no container"
	if held || !known {
		nobody = "no other container"
	}
	switch n.reason {
	case DeviceAdded:
		return name + " was added at " + at(n.is.came) + ": " + health + "."
	case DeviceUnhealthy:
		return name + " is " + health + " " + n.since() + ". It is given to " + nobody + "."
	case DeviceDegraded:
		return name + " is " + health + " " + n.since() + ". It is still given to containers."
	case DeviceRecovered:
		return name + " is " + health + " again since " + from + n.before() + "."
	case DeviceExcluded:
		return name + " was taken out by the operator at " + from + ": it is given to no container."
	case DeviceMoving:
		return name + " is to be offered as something else since " + from + ": that waits until nobody holds it."
	case DeviceRemoved:
		return n.removal(known)
	case DeviceRemovedInUse:
		return name + " is gone from the node " + n.since() + ", and in use. It is given to " + nobody + "."
	case DeviceReplacedInUse:
		return "Another device is in the place of " + name + " since " + from + ", which is still in use. It is given to " + nobody + " until that ends."
	case DeviceReturned:
		return name + " is back in its place since " + from + n.before() + ": " + health + "."
	}
	return n.release()
}

// removal is the message on the node where a device is gone that nobody holds, as
// far as is known.
func (n news) removal(known bool) string {
	text := n.named() + " was removed from the node at " + at(n.is.since) + "."
	switch {
	case n.warning():
		return text + " Who holds it is not known: it stays listed until it is, or for the grace time."
	case n.is.device.OfferedAs == "":
		return text
	case !known: // and there is no grace time
		return text + " Who held it is not known."
	}
	return text + " No container held it."
}

// release is the message on the node where nobody holds a device any more.
func (n news) release() string {
	if n.was.kind == replacedInUse && n.is.kind.here() {
		return "The device that was in the place of " + n.named() + " is held no longer. What is there now is " +
			n.health() + " since " + at(n.is.since) + "."
	}
	return n.named() + ", which is gone from the node, is held no longer since " + at(n.is.since) + n.before() + "."
}

// holding says who holds a device, and what becomes of them.
func holding(pods []pod, known bool) string {
	var names []string
	for _, p := range pods {
		names = append(names, p.String())
	}
	switch {
	case len(names) == 1:
		return "The pod " + names[0] + " holds it and keeps running."
	case len(names) > 1:
		return "The pods " + strings.Join(names, ", ") + " hold it and keep running."
	case known:
		return "No container holds it."
	}
	return "Who holds it is not known."
}

// forPod is the message on a pod that holds the device.
func (n news) forPod(p pod) string {
	name := n.named() + " of container " + strings.Join(p.containers, ", ")
	health, from := n.health(), at(n.is.since)
	switch n.reason {
	case DeviceUnhealthy:
		return clip(name + " is " + health + " " + n.since() + ". The pod keeps running; the device is not given to another one" +
			" before this one ends and the device has recovered.")
	case DeviceRemovedInUse:
		return clip(name + " is gone from the node " + n.since() + ". The pod keeps running without it; the device is not given to another one" +
			" before this one ends.")
	case DeviceReplacedInUse:
		return clip("Another device is in the place of " + name + " since " + from + ". The pod keeps running;" +
			" what is there is not given to another one before this one ends.")
	case DeviceReturned:
		return clip(name + " is back in its place since " + from + n.before() + ": " + health + ". What the pod had open of it is lost:" +
			" it must open it again, or be restarted.")
	}
	return clip(name + " is " + health + " again since " + from + n.before() + ".")
}

// clip keeps a message to what the API server has room for.
func clip(text string) string {
	if len(text) <= maxMessage {
		return text
	}
	return strings.ToValidUTF8(text[:maxMessage-len(" …")], "") + " …"
}
