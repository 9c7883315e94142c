package apiserver

import (
	"fmt"
	"net/url"
	"strings"
	"time"
)

// Condition is a Node condition.
type Condition struct {
	Type       string
	Status     string // True, False or Unknown; "" if the Node doesn't have the condition
	Reason     string // CamelCase
	Message    string
	Transition time.Time `json:"lastTransitionTime"` // when Status last changed
}

// Condition returns one of a Node's conditions. It doesn't get the Node, but sends a patch that doesn't change
// anything, because this only needs the same permission as [Writer.Apply]. A policy can restrict patches to this Node,
// but not the permission to get nodes.
func (w *Writer) Condition(node, kind string) (Condition, error) {
	var answer struct {
		object
		Status struct{ Conditions []Condition }
	}
	dry := call{verb: "patch", query: url.Values{"dryRun": {"All"}}, body: []byte("{}"), whole: true}
	err := w.patchStatus(node, dry, &answer)
	if err == nil {
		_, err = answer.node(node)
	}
	if err != nil {
		return Condition{}, fmt.Errorf("read the condition %s of node %s: %w", clip(kind), clip(node), err)
	}
	for _, c := range answer.Status.Conditions {
		if c.Type == kind {
			return c, nil
		}
	}
	return Condition{Type: kind}, nil
}

// ownTypes is the prefix of condition types that no other program has any business writing.
const ownTypes = "accelerator.b-com.com/"

// Apply creates or updates a Node condition with server-side apply. If another program has written the condition, Apply
// overwrites it only if its type begins with ownTypes; otherwise, it returns [ErrExists]. Conditions of other types are
// left alone, even those that Apply has written.
func (w *Writer) Apply(node string, c Condition) error {
	body := encode(fields{
		"apiVersion": "v1", "kind": "Node", "metadata": fields{"name": node},
		"status": fields{"conditions": []fields{{
			"type": c.Type, "status": c.Status, "reason": c.Reason, "message": c.Message,
			"lastTransitionTime": timestamp(c.Transition), "lastHeartbeatTime": timestamp(time.Now()),
		}}},
	})
	// Server-side apply removes conditions that the same field manager applied before but leaves out now, so each type
	// has its own field manager.
	query := url.Values{"fieldManager": {component + " " + c.Type}}
	if strings.HasPrefix(c.Type, ownTypes) {
		query.Set("force", "true")
	}
	if err := w.patchStatus(node, call{verb: "patch", query: query, body: body, apply: true}, nil); err != nil {
		return fmt.Errorf("write the condition %s of node %s: %w", clip(c.Type), clip(node), err)
	}
	return nil
}

func (w *Writer) patchStatus(node string, c call, answer any) error {
	if !dnsName.MatchString(node) {
		return fmt.Errorf("want a DNS name in lower case: %w", ErrRefused)
	}
	c.resource, c.path = "nodes/status", "/api/v1/nodes/"+node+"/status"
	return w.session.ask(w.ctx, writeWithin, c, answer)
}
