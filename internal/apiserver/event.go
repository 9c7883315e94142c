package apiserver

import (
	"encoding/json"
	"fmt"
	"time"
)

// component is who says what is in an Event.
const component = "accelerator-device-plugin"

// Event is an Event of core/v1, as far as we write it.
type Event struct {
	Name        string // DNS name, unique in the namespace of the object
	Object      Object
	Host        string // the node that it happened on
	Warning     bool   // else Normal
	Reason      string // CamelCase
	Message     string // 1024 bytes at most
	First, Last time.Time
	Count       int
}

// Object is what an Event is about.
type Object struct {
	Kind      string // Node or Pod
	Namespace string // "" of a node
	Name      string
	UID       string // by which kubectl describe finds Events; "": not known
}

// namespace is where Events about an object are: those about nodes are in default
// (legacyValidateEvent, pkg/apis/core/validation/events.go of Kubernetes).
func (o Object) namespace() string {
	if o.Namespace == "" {
		return "default"
	}
	return o.Namespace
}

// path is the collection that an Event belongs to. What is no name gets into no
// path.
func (e Event) path() (string, error) {
	for _, name := range []string{e.Object.namespace(), e.Object.Name, e.Name} {
		if !nodeName.MatchString(name) {
			return "", fmt.Errorf("event %s: %q: want a DNS name in lower case: %w", e.Reason, clip(name), ErrRefused)
		}
	}
	return "/api/v1/namespaces/" + e.Object.namespace() + "/events", nil
}

// fields is a JSON object.
type fields map[string]any

func timestamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }

func (e Event) kind() string {
	if e.Warning {
		return "Warning"
	}
	return "Normal"
}

// whole is the Event as it is made. The fields are those that client-go's
// recorder of core/v1 sets (makeEvent, tools/record/event.go).
func (e Event) whole() []byte {
	object := fields{"apiVersion": "v1", "kind": e.Object.Kind, "name": e.Object.Name}
	if e.Object.Namespace != "" {
		object["namespace"] = e.Object.Namespace
	}
	if e.Object.UID != "" {
		object["uid"] = e.Object.UID
	}
	return encode(fields{
		"apiVersion": "v1", "kind": "Event",
		"metadata":           fields{"name": e.Name, "namespace": e.Object.namespace()},
		"involvedObject":     object,
		"type":               e.kind(),
		"reason":             e.Reason,
		"message":            e.Message,
		"source":             fields{"component": component, "host": e.Host},
		"reportingComponent": component, "reportingInstance": e.Host,
		"firstTimestamp": timestamp(e.First), "lastTimestamp": timestamp(e.Last), "count": e.Count,
	})
}

// growth is what changes when it happens again.
func (e Event) growth() []byte {
	return encode(fields{"type": e.kind(), "message": e.Message, "lastTimestamp": timestamp(e.Last), "count": e.Count})
}

func encode(f fields) []byte {
	data, err := json.Marshal(f)
	if err != nil {
		panic(err) // texts, numbers, and objects of them
	}
	return data
}
