package simapiserver

import (
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

const namespaces = "/api/v1/namespaces/"

// core is what is in namespaces. The zero value has them all, and nothing in
// them.
type core struct {
	pods   map[string]string // uid by NAMESPACE/NAME
	events []Event           // in the order in which they were made
	ending map[string]bool   // namespaces that are being deleted
	gone   map[string]bool   // and those that are not there
	deaf   bool              // what is made is made, but nobody hears of it
}

// Event is an Event of core/v1 as it was taken.
type Event struct {
	Metadata struct{ Name, Namespace string }

	InvolvedObject struct {
		APIVersion, Kind, Namespace, Name, UID string
	}
	Reason, Message, Type string

	Source struct{ Component, Host string }

	ReportingComponent, ReportingInstance string

	FirstTimestamp, LastTimestamp time.Time

	Count int
}

// SetPod makes a pod, or another one of the same name.
func (s *Server) SetPod(namespace, name, uid string) {
	s.edit(func() {
		if s.core.pods == nil {
			s.core.pods = map[string]string{}
		}
		s.core.pods[namespace+"/"+name] = uid
	})
}

// DeletePod removes a pod.
func (s *Server) DeletePod(namespace, name string) {
	s.edit(func() { delete(s.core.pods, namespace+"/"+name) })
}

// EndNamespace begins to delete a namespace: nothing is made there any more.
func (s *Server) EndNamespace(name string) {
	s.edit(func() { s.core.ending = with(s.core.ending, name) })
}

// DeleteNamespace removes a namespace.
func (s *Server) DeleteNamespace(name string) {
	s.edit(func() { s.core.gone = with(s.core.gone, name) })
}

func with(set map[string]bool, name string) map[string]bool {
	set = maps.Clone(set)
	if set == nil {
		set = map[string]bool{}
	}
	set[name] = true
	return set
}

// ExpireEvents forgets all Events, as an API server does after an hour.
func (s *Server) ExpireEvents() { s.edit(func() { s.core.events = nil }) }

// Deaf makes a server that makes Events and does not say so.
func (s *Server) Deaf(deaf bool) { s.edit(func() { s.core.deaf = deaf }) }

// Events are those that there are, in the order in which they were made.
func (s *Server) Events() []Event {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.core.events)
}

// namespaced answers requests for what is in a namespace.
func (s *Server) namespaced(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	part := strings.Split(strings.TrimPrefix(r.URL.Path, namespaces), "/")
	switch {
	case r.Method == http.MethodGet && len(part) == 3 && part[1] == "pods":
		s.pod(w, r, part[0], part[2])
	case r.Method == http.MethodPost && len(part) == 2 && part[1] == "events":
		s.create(w, r, part[0])
	case r.Method == http.MethodPatch && len(part) == 3 && part[1] == "events":
		s.patch(w, r, part[0], part[2])
	default:
		Refuse(w, http.StatusForbidden, r.Method+" of "+r.URL.Path+" is forbidden")
	}
}

func (s *Server) pod(w http.ResponseWriter, r *http.Request, namespace, name string) {
	uid, ok := s.core.pods[namespace+"/"+name]
	if !ok {
		Refuse(w, http.StatusNotFound, `pods "`+name+`" not found`)
		return
	}
	pod := object(name, node{uid: uid}, s.version, s.partial(r))
	pod["metadata"].(fields)["namespace"] = namespace
	if pod["kind"] == "Node" {
		pod["kind"] = "Pod"
	}
	w.Header().Set("Content-Type", "application/json")
	write(w, pod)
}

// create takes an Event, as kube-apiserver does: admission (NamespaceLifecycle)
// and validation (legacyValidateEvent) first.
func (s *Server) create(w http.ResponseWriter, r *http.Request, namespace string) {
	var e Event
	if !decode(w, r, "application/json", &e) {
		return
	}
	switch m := e.Metadata; {
	case s.core.gone[namespace]:
		Refuse(w, http.StatusNotFound, `namespaces "`+namespace+`" not found`)
	case s.core.ending[namespace]:
		refuseEnding(w, namespace)
	case m.Namespace != namespace, m.Name == "", len(m.Name) > 253, strings.Trim(m.Name, "abcdefghijklmnopqrstuvwxyz0123456789.-") != "":
		Refuse(w, http.StatusUnprocessableEntity, `Event "`+m.Name+`" is invalid: metadata`)
	case e.InvolvedObject.Namespace != namespace && (e.InvolvedObject.Namespace != "" || namespace != "default"):
		Refuse(w, http.StatusUnprocessableEntity, `Event "`+m.Name+`" is invalid: involvedObject.namespace: does not match event.namespace`)
	case s.event(namespace, m.Name) != nil:
		Refuse(w, http.StatusConflict, `events "`+m.Name+`" already exists`)
	default:
		s.core.events = append(s.core.events, e)
		if s.core.deaf {
			panic(http.ErrAbortHandler)
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusCreated)
		write(w, object(m.Name, node{uid: "uid-of-" + m.Name}, s.version, s.partial(r)))
	}
}

// patch merges what came into an Event.
func (s *Server) patch(w http.ResponseWriter, r *http.Request, namespace, name string) {
	e := s.event(namespace, name)
	if e == nil {
		Refuse(w, http.StatusNotFound, `events "`+name+`" not found`)
		return
	}
	merged := *e
	if !decode(w, r, "application/merge-patch+json", &merged) {
		return
	}
	*e = merged
	w.Header().Set("Content-Type", "application/json")
	write(w, object(name, node{uid: "uid-of-" + name}, s.version, s.partial(r)))
}

func (s *Server) event(namespace, name string) *Event {
	i := slices.IndexFunc(s.core.events, func(e Event) bool { return e.Metadata.Namespace == namespace && e.Metadata.Name == name })
	if i < 0 {
		return nil
	}
	return &s.core.events[i]
}

// decode reads an object of which every field is known.
func decode(w http.ResponseWriter, r *http.Request, kind string, to *Event) bool {
	if got := r.Header.Get("Content-Type"); got != kind {
		Refuse(w, http.StatusUnsupportedMediaType, "the body of the request was in an unknown format: "+got)
		return false
	}
	into := struct {
		*Event
		APIVersion, Kind string
	}{Event: to}
	reader := json.NewDecoder(io.LimitReader(r.Body, 3<<20))
	reader.DisallowUnknownFields()
	if err := reader.Decode(&into); err != nil {
		Refuse(w, http.StatusBadRequest, err.Error())
		return false
	}
	return true
}

// refuseEnding is the answer of NamespaceLifecycle.
func refuseEnding(w http.ResponseWriter, namespace string) {
	s := status(http.StatusForbidden, "events is forbidden: unable to create new content in namespace "+namespace+" because it is being terminated")
	s["reason"] = "Forbidden"
	s["details"] = fields{"kind": "events", "causes": []fields{{
		"reason": "NamespaceTerminating", "message": "namespace " + namespace + " is being terminated", "field": "metadata.namespace",
	}}}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusForbidden)
	write(w, s)
}

// String is what kubectl shows of an Event, and where it is.
func (e Event) String() string {
	return strings.Join([]string{
		e.Metadata.Namespace, e.InvolvedObject.Kind + "/" + e.InvolvedObject.Name, e.InvolvedObject.UID,
		e.Type, e.Reason, "x" + strconv.Itoa(e.Count), e.Message,
	}, " ")
}
