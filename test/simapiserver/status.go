package simapiserver

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"time"
)

// Condition is a node condition.
type Condition struct {
	Type, Status, Reason, Message         string
	LastTransitionTime, LastHeartbeatTime time.Time
	Manager                               string // the field manager that owns the condition
}

// SetCondition creates or replaces one of a node's conditions.
func (s *Server) SetCondition(name string, c Condition) {
	s.edit(func() { s.setCondition(name, c) })
}

func (s *Server) setCondition(name string, c Condition) {
	n := s.nodes[name]
	n.conditions = append(slices.DeleteFunc(slices.Clone(n.conditions), func(o Condition) bool { return o.Type == c.Type }), c)
	s.change(name, n)
}

// Conditions returns a node's conditions in the order in which they were last written.
func (s *Server) Conditions(name string) []Condition {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.nodes[name].conditions)
}

// patchStatus responds to a patch of a node's status. The patch must be either an empty dry run or a server-side apply
// of conditions. As in the real server, applying removes the manager's other conditions.
func (s *Server) patchStatus(w http.ResponseWriter, r *http.Request, name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n, ok := s.nodes[name]
	if !ok || n.kind == "DELETED" {
		Refuse(w, http.StatusNotFound, `nodes "`+name+`" not found`)
		return
	}
	manager := r.FormValue("fieldManager")
	var body struct {
		APIVersion, Kind string
		Metadata         struct{ Name string }
		Status           struct{ Conditions []Condition }
	}
	err := json.NewDecoder(r.Body).Decode(&body)
	apply := strings.HasPrefix(r.Header.Get("Content-Type"), "application/apply-patch+yaml")
	switch {
	case err != nil, apply && (body.Kind != "Node" || body.APIVersion != "v1" || body.Metadata.Name != name || manager == ""),
		!apply && (r.FormValue("dryRun") != "All" || body.Kind != "" || body.Status.Conditions != nil):
		Refuse(w, http.StatusBadRequest, "want an apply of a Node by a manager, or a dry run of an empty patch")
		return
	}
	for _, c := range body.Status.Conditions {
		if i := slices.IndexFunc(n.conditions, func(o Condition) bool { return o.Type == c.Type }); i >= 0 && n.conditions[i].Manager != manager && r.FormValue("force") != "true" {
			Refuse(w, http.StatusConflict, "Apply failed with 1 conflict: conflict with "+n.conditions[i].Manager)
			return
		}
	}
	if apply {
		n.conditions = slices.DeleteFunc(slices.Clone(n.conditions), func(o Condition) bool { return o.Manager == manager })
		s.change(name, n)
		for _, c := range body.Status.Conditions {
			c.Manager = manager
			s.setCondition(name, c)
		}
	}
	answer := s.nodes[name].object(name)
	if !strings.Contains(r.Header.Get("Accept"), "as=PartialObjectMetadata") {
		answer["kind"], answer["apiVersion"] = "Node", "v1"
		var all []fields
		for _, c := range s.nodes[name].conditions {
			all = append(all, fields{"type": c.Type, "status": c.Status, "reason": c.Reason, "message": c.Message,
				"lastTransitionTime": c.LastTransitionTime, "lastHeartbeatTime": c.LastHeartbeatTime})
		}
		answer["status"] = fields{"conditions": all}
	}
	write(w, http.StatusOK, answer)
}
