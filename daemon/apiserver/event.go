package apiserver

import (
	"encoding/json"
	"fmt"
	"time"
)

// component is the source of the Events.
const component = "accelerator-device-plugin"

// Event holds the fields of a core/v1 Event that this package writes.
type Event struct {
	Name        string // DNS name, unique in the object's namespace
	Object      Object
	Host        string // the node's name
	Warning     bool   // false means Normal
	Reason      string // CamelCase
	Message     string
	First, Last time.Time
	Count       int
}

// Object is the object that an Event is about.
type Object struct {
	Kind      string // Node or Pod
	Namespace string // "" for a node
	Name      string
	UID       string // kubectl describe finds Events by UID; "" if not known
}

// namespace returns the namespace for the object's Events. Events about nodes go into the default namespace
// (legacyValidateEvent, pkg/apis/core/validation/events.go in Kubernetes).
func (o Object) namespace() string {
	if o.Namespace == "" {
		return "default"
	}
	return o.Namespace
}

// path returns the API path of the Event's collection.
func (e Event) path() (string, error) {
	for _, name := range []string{e.Object.namespace(), e.Object.Name, e.Name} {
		if !dnsName.MatchString(name) {
			return "", fmt.Errorf("event %s: found the name %q, want a DNS name in lower case: %w", e.Reason, clip(name), ErrRefused)
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

// whole returns the body of the request that creates the Event. It sets the same fields as client-go's core/v1 recorder
// (makeEvent, tools/record/event.go).
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

// growth returns the body of the request that updates a repeated Event.
func (e Event) growth() []byte {
	return encode(fields{"type": e.kind(), "message": e.Message, "lastTimestamp": timestamp(e.Last), "count": e.Count})
}

func encode(f fields) []byte {
	data, err := json.Marshal(f)
	if err != nil {
		panic(err) // can't happen: there are only strings, numbers and objects made of them
	}
	return data
}
