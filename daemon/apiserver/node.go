package apiserver

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"time"
)

const (
	watchFor     = 5 * time.Minute  // a watch is requested for one to two times as long
	tooBrief     = 5 * time.Second  // a watch that ends sooner than this has failed
	steadyAfter  = 45 * time.Second // a watch that has lasted this long counts as recovery
	reopenWithin = time.Second      // maximum delay after a watch that ended without failing
)

// Node is a Node object's metadata.
type Node struct {
	Name        string
	UID         string            // changes if the node is deleted and recreated
	Annotations map[string]string // must not be modified
	Exists      bool              // if false, the API server has no such node, and only Name is set
}

func (n Node) equal(other Node) bool {
	return n.UID == other.UID && n.Exists == other.Exists && maps.Equal(n.Annotations, other.Annotations)
}

// object is a PartialObjectMetadata or a Status.
type object struct {
	Kind     string
	Metadata struct {
		Name, Namespace, UID, ResourceVersion string
		Annotations                           map[string]string
	}

	// The following fields are only set if the object is a Status.
	Code    int
	Message string
}

// node returns the object as a Node, or an error if it isn't the node with this name.
func (o object) node(name string) (Node, error) {
	m := o.Metadata
	if m.Name != name || m.UID == "" {
		return Node{}, fmt.Errorf("found node %q with uid %q, want node %q with its uid", clip(m.Name), clip(m.UID), name)
	}
	return Node{Name: name, UID: m.UID, Annotations: m.Annotations, Exists: true}, nil
}

// nodeList is the response to a list request for a single name.
type nodeList struct {
	object
	Items []object
}

// node returns the listed node.
func (l nodeList) node(name string) (Node, error) {
	// Only an empty list means that the node doesn't exist, so reject all other responses without items.
	if l.Kind != "PartialObjectMetadataList" || l.Metadata.ResourceVersion == "" {
		return Node{}, fmt.Errorf("found kind %q with resourceVersion %q, want a list of nodes",
			clip(l.Kind), clip(l.Metadata.ResourceVersion))
	}
	switch len(l.Items) {
	case 0:
		return Node{Name: name}, nil
	case 1:
		return l.Items[0].node(name)
	}
	return Node{}, errors.New("found several nodes, want at most one: the server ignores the field selector")
}

// watchEvent is one line in a watch response.
type watchEvent struct {
	Type   string
	Object object
}

// errExpired is returned for an ERROR event with code 410, which means that the API server no longer has the history
// that the watch needs.
var errExpired = errors.New("resourceVersion is too old")

// node returns the node's state after the event.
func (e watchEvent) node(name string) (Node, error) {
	switch e.Type {
	case "ADDED", "MODIFIED", "DELETED":
		node, err := e.Object.node(name)
		if err != nil {
			return Node{}, fmt.Errorf("event %s: %w", e.Type, err)
		}
		if e.Type == "DELETED" {
			node = Node{Name: name}
		}
		return node, nil
	case "ERROR":
		if e.Object.Code == http.StatusGone {
			return Node{}, errExpired
		}
		return Node{}, &refusal{code: e.Object.Code, words: clip(e.Object.Message)}
	}
	return Node{}, fmt.Errorf("type: found %q, want ADDED, MODIFIED, DELETED or ERROR", clip(e.Type))
}

// dnsName matches DNS subdomains, which are the only names that objects can have. Any other name must not be used in a
// path or a field selector.
var dnsName = regexp.MustCompile(`^[a-z0-9]([-.a-z0-9]{0,251}[a-z0-9])?$`)

// FollowNode follows a Node object until ctx is done, and then returns nil. It calls changed with the first state that
// the API server returns, even if there is no such node. After that, it calls changed whenever the annotations or the
// UID differ from the previous call, or when the node is created or deleted. It may skip intermediate states, but never
// the newest one. After each 401 or 403, it also calls refused, because the account may never get the permission.
//
// FollowNode returns an error only if name isn't a valid node name.
func (c *Client) FollowNode(ctx context.Context, name string, changed func(Node), refused func()) error {
	if !dnsName.MatchString(name) {
		return fmt.Errorf("node name: found %q, want a DNS name in lower case", name)
	}
	f := &follower{session: session{Client: c}, name: name, changed: changed, trouble: c.trouble(name)}
	defer f.close()
	for ctx.Err() == nil {
		err := f.listAndWatch(ctx)
		if ctx.Err() != nil {
			break
		}
		// Wait for a random time, because when an API server stops, the watches of all nodes end at once.
		wait := rand.N(reopenWithin)
		if err != nil {
			wait = f.trouble.failure(err)
		}
		if errors.Is(err, ErrUnauthorized) || errors.Is(err, ErrForbidden) {
			refused()
		}
		select {
		case <-ctx.Done():
		case <-time.After(wait):
		}
	}
	return nil
}

// follower is the state of one FollowNode call. It belongs to that call's goroutine.
type follower struct {
	session
	name    string
	changed func(Node)
	trouble trouble
	last    *Node // the last node passed to changed; nil if there is none
}

// observe passes the node to changed if its annotations or UID differ from those that were passed last. Most events
// don't affect these: they only update the node's status, which happens every few minutes.
func (f *follower) observe(node Node) {
	if f.last == nil || !f.last.equal(node) {
		f.last = &node
		f.changed(node)
	}
}

// listAndWatch lists the node and follows it until the watch ends. The list request doesn't specify a resourceVersion,
// so the response is never older than an earlier one.
func (f *follower) listAndWatch(ctx context.Context) error {
	version, err := f.list(ctx)
	if err != nil {
		return fmt.Errorf("list node %s: %w", f.name, err)
	}
	if err := f.watch(ctx, version); err != nil {
		return fmt.Errorf("watch node %s: %w", f.name, err)
	}
	return nil
}

func (f *follower) nodes(verb string, more url.Values) call {
	query := url.Values{"fieldSelector": {"metadata.name=" + f.name}}
	maps.Copy(query, more)
	return call{verb: verb, resource: "nodes", path: "/api/v1/nodes", query: query}
}

// list gets the node with a list request and returns the list's resourceVersion.
func (f *follower) list(ctx context.Context) (version string, err error) {
	var list nodeList
	if err := f.ask(ctx, requestWithin, f.nodes("list", nil), &list); err != nil {
		return "", err
	}
	node, err := list.node(f.name)
	if err != nil {
		return "", fmt.Errorf("API server %s: %w", f.server, err)
	}
	f.observe(node)
	return list.Metadata.ResourceVersion, nil
}

// watch follows the node, starting at version, until the watch ends. API servers can end watches at any time, and
// connections can break, so this is only an error if it happens within tooBrief of the start.
func (f *follower) watch(ctx context.Context, version string) error {
	lasts := watchFor + rand.N(watchFor)
	ctx, cancel := context.WithTimeout(ctx, lasts+requestWithin)
	defer cancel()
	opening := time.AfterFunc(requestWithin, cancel)
	answer, err := f.do(ctx, f.nodes("watch", url.Values{
		"watch": {"true"}, "resourceVersion": {version}, "timeoutSeconds": {strconv.Itoa(int(lasts.Seconds()))},
	}))
	if err == nil {
		defer answer.Body.Close()
	}
	if !opening.Stop() {
		err = fmt.Errorf("API server %s: no answer within %s", f.server, requestWithin)
	}
	if err != nil {
		return err
	}

	began, passed := time.Now(), make(chan struct{})
	steady := time.AfterFunc(steadyAfter, func() {
		defer close(passed)
		f.trouble.success() // safe, because trouble isn't used elsewhere until watch returns
	})
	defer func() {
		if !steady.Stop() {
			<-passed
		}
	}()
	for events := newDecoder(answer.Body); ; {
		var e watchEvent
		err := events.decode(&e)
		ended := err != nil && !isMalformed(err)
		var node Node
		if err == nil {
			node, err = e.node(f.name)
			ended = errors.Is(err, errExpired)
		}
		switch lasted := time.Since(began); {
		case err == nil:
			f.observe(node)
		case !ended:
			return fmt.Errorf("API server %s: event: %w", f.server, err)
		case lasted < tooBrief:
			return fmt.Errorf("API server %s: ended after %s: %w", f.server, lasted.Round(time.Millisecond), err)
		default:
			return nil
		}
	}
}
