package apiserver

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
)

var (
	errTooLarge = fmt.Errorf("larger than %d bytes", maxAnswer)
	errExpired  = errors.New("resourceVersion is too old")
)

// object is what we know of a Node, of its PartialObjectMetadata, of lists of
// them and of a Status; the rest is skipped.
type object struct {
	Kind     string
	Metadata metadata

	// Of a Status.
	Code    int
	Message string
}

type metadata struct {
	Name            string
	Namespace       string
	UID             string
	ResourceVersion string
	Annotations     map[string]string
}

// parseList reads the answer to a list that was asked for one name. It returns
// the node and the resourceVersion to watch from.
func parseList(data []byte, name string) (Node, string, error) {
	var list struct {
		object
		Items []object
	}
	if err := json.Unmarshal(data, &list); err != nil {
		return Node{}, "", fmt.Errorf("not a list of nodes: %w", err)
	}
	// An answer that only lacks items must not pass for a node that is not there.
	if list.Kind != "PartialObjectMetadataList" && list.Kind != "NodeList" || list.Metadata.ResourceVersion == "" {
		return Node{}, "", fmt.Errorf("not a list of nodes: kind %q, resourceVersion %q", clip(list.Kind), clip(list.Metadata.ResourceVersion))
	}
	switch len(list.Items) {
	case 0:
		return Node{Name: name}, list.Metadata.ResourceVersion, nil
	case 1:
		node, err := list.Items[0].node(name)
		return node, list.Metadata.ResourceVersion, err
	}
	return Node{}, "", fmt.Errorf("list of %d nodes, want at most one: the server heeds no field selector", len(list.Items))
}

// node is the object as a node that exists.
func (o object) node(name string) (Node, error) {
	if o.Metadata.Name != name || o.Metadata.UID == "" {
		return Node{}, fmt.Errorf("node %q, uid %q: want node %q, and its uid", clip(o.Metadata.Name), clip(o.Metadata.UID), name)
	}
	return Node{Name: name, UID: o.Metadata.UID, Annotations: o.Metadata.Annotations, Exists: true}, nil
}

// news is what an event says.
type news struct {
	version string
	node    *Node // nil: a bookmark
}

// watchEvent is one line of a watch.
type watchEvent struct {
	Type   string
	Object object
}

func (e watchEvent) news(name string) (news, error) {
	version := e.Object.Metadata.ResourceVersion
	if e.Type != "ERROR" && version == "" {
		return news{}, fmt.Errorf("event %q without resourceVersion", clip(e.Type))
	}
	switch e.Type {
	case "BOOKMARK":
		return news{version: version}, nil
	case "ADDED", "MODIFIED", "DELETED":
		node, err := e.Object.node(name)
		if err != nil {
			return news{}, fmt.Errorf("event %s: %w", e.Type, err)
		}
		if e.Type == "DELETED" {
			node = Node{Name: name}
		}
		return news{version: version, node: &node}, nil
	case "ERROR":
		if e.Object.Code == http.StatusGone {
			return news{}, errExpired
		}
		return news{}, &refusal{code: e.Object.Code, words: clip(e.Object.Message)}
	}
	return news{}, fmt.Errorf("event of the type %q", clip(e.Type))
}

// events reads the events of a watch: one JSON object after the other.
type events struct {
	decoder *json.Decoder
	from    io.Reader
	left    int64  // bytes that the event may still have
	inside  bool   // an event has begun
	begun   func() // called when an event begins
}

func newEvents(from io.Reader, begun func()) *events {
	e := &events{from: from, begun: begun}
	e.decoder = json.NewDecoder(e)
	return e
}

// next blocks until an event is there. [io.EOF] is an end between two events.
func (e *events) next() (watchEvent, error) {
	e.left, e.inside = maxAnswer, false
	rest, _ := io.ReadAll(e.decoder.Buffered()) // from memory
	e.begin(rest)
	var read watchEvent
	err := e.decoder.Decode(&read)
	return read, err
}

// Read is how the decoder reads.
func (e *events) Read(p []byte) (int, error) {
	if e.left <= 0 {
		return 0, errTooLarge
	}
	n, err := e.from.Read(p[:min(int64(len(p)), e.left)])
	e.left -= int64(n)
	e.begin(p[:n])
	return n, err
}

// begin notes that an event has begun, with the first byte that is no space.
func (e *events) begin(read []byte) {
	if !e.inside && len(bytes.TrimSpace(read)) > 0 {
		e.inside = true
		e.begun()
	}
}
