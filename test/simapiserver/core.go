package simapiserver

import (
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Event is a core/v1 Event that the server has received.
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

// String returns the Event's namespace and then the columns that kubectl shows.
func (e Event) String() string {
	return strings.Join([]string{
		e.Metadata.Namespace, e.InvolvedObject.Kind + "/" + e.InvolvedObject.Name, e.InvolvedObject.UID,
		e.Type, e.Reason, "x" + strconv.Itoa(e.Count), e.Message,
	}, " ")
}

// SetPod creates a pod, or replaces the pod with the same name.
func (s *Server) SetPod(namespace, name, uid string) {
	s.edit(func() { s.pods[namespace+"/"+name] = uid })
}

// DeletePod removes a pod.
func (s *Server) DeletePod(namespace, name string) {
	s.edit(func() { delete(s.pods, namespace+"/"+name) })
}

// EndNamespace starts deleting a namespace. From then on, no objects can be created in it.
func (s *Server) EndNamespace(name string) { s.edit(func() { s.ending[name] = true }) }

// DeleteNamespace marks a namespace as deleted. The server treats every other namespace as existing.
func (s *Server) DeleteNamespace(name string) { s.edit(func() { s.gone[name] = true }) }

// ExpireEvents removes all Events, as an API server does after an hour.
func (s *Server) ExpireEvents() { s.edit(func() { s.events = nil }) }

// Deaf makes the server create Events but then close the connection without a response.
func (s *Server) Deaf(deaf bool) { s.edit(func() { s.deaf = deaf }) }

// Events returns the Events that exist, in order of creation.
func (s *Server) Events() []Event {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.events)
}

// namespaced responds to requests for objects in a namespace.
func (s *Server) namespaced(w http.ResponseWriter, r *http.Request, path string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	namespace, path, _ := strings.Cut(path, "/")
	resource, name, named := strings.Cut(path, "/")
	switch {
	case r.Method == http.MethodGet && resource == "pods" && named:
		uid, ok := s.pods[namespace+"/"+name]
		if !ok {
			Refuse(w, http.StatusNotFound, `pods "`+name+`" not found`)
			return
		}
		pod := node{uid: uid}.object(name)
		pod["metadata"].(fields)["namespace"] = namespace
		write(w, http.StatusOK, pod)
	case r.Method == http.MethodPost && resource == "events" && !named:
		s.create(w, r, namespace)
	case r.Method == http.MethodPatch && resource == "events" && named:
		e := s.event(namespace, name)
		if e == nil {
			Refuse(w, http.StatusNotFound, `events "`+name+`" not found`)
			return
		}
		if merged := *e; decode(w, r, "application/merge-patch+json", &merged) {
			*e = merged
			write(w, http.StatusOK, node{uid: "uid-of-" + name}.object(name))
		}
	default:
		Refuse(w, http.StatusForbidden, r.Method+" of "+r.URL.Path+" is forbidden")
	}
}

// create creates an Event. It first makes the same checks as kube-apiserver: admission (NamespaceLifecycle) and
// validation (legacyValidateEvent).
func (s *Server) create(w http.ResponseWriter, r *http.Request, namespace string) {
	var e Event
	if !decode(w, r, "application/json", &e) {
		return
	}
	switch m := e.Metadata; {
	case s.gone[namespace]:
		Refuse(w, http.StatusNotFound, `namespaces "`+namespace+`" not found`)
	case s.ending[namespace]:
		write(w, http.StatusForbidden, fields{
			"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": http.StatusForbidden, "reason": "Forbidden",
			"message": "events is forbidden: unable to create new content in namespace " + namespace +
				" because it is being terminated",
			"details": fields{"kind": "events", "causes": []fields{{
				"reason": "NamespaceTerminating", "message": "namespace " + namespace + " is being terminated", "field": "metadata.namespace",
			}}},
		})
	case m.Namespace != namespace, m.Name == "", len(m.Name) > 253,
		strings.Trim(m.Name, "abcdefghijklmnopqrstuvwxyz0123456789.-") != "":
		Refuse(w, http.StatusUnprocessableEntity, `Event "`+m.Name+`" is invalid: metadata`)
	case e.InvolvedObject.Namespace != namespace && (e.InvolvedObject.Namespace != "" || namespace != "default"):
		Refuse(w, http.StatusUnprocessableEntity, `Event "`+m.Name+`" is invalid: involvedObject.namespace: does not match event.namespace`)
	case s.event(namespace, m.Name) != nil:
		Refuse(w, http.StatusConflict, `events "`+m.Name+`" already exists`)
	default:
		s.events = append(s.events, e)
		if s.deaf {
			panic(http.ErrAbortHandler)
		}
		write(w, http.StatusCreated, node{uid: "uid-of-" + m.Name}.object(m.Name))
	}
}

// event returns an Event, or nil if there is no such Event. The caller must hold mu.
func (s *Server) event(namespace, name string) *Event {
	i := slices.IndexFunc(s.events, func(e Event) bool {
		return e.Metadata.Namespace == namespace && e.Metadata.Name == name
	})
	if i < 0 {
		return nil
	}
	return &s.events[i]
}

// decode decodes the Event in a request. If that fails, because of an unknown field, for example, decode writes the
// error and returns false.
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
