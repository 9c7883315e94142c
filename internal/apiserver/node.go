package apiserver

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/url"
	"regexp"
	"time"

	"b-com.com/accelerator-device-plugin/internal/backoff"
)

// Node is what we know of a Node object.
type Node struct {
	Name        string
	UID         string            // another one: deleted and made again
	Annotations map[string]string // not to be changed
	Exists      bool              // false: the API server has no such node; only Name is set
}

func (n Node) equal(other Node) bool {
	return n.Name == other.Name && n.UID == other.UID && n.Exists == other.Exists && maps.Equal(n.Annotations, other.Annotations)
}

const (
	nodesPath = "/api/v1/nodes"

	// Who does not know the first sends the whole objects.
	acceptList  = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"
	acceptWatch = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json"

	firstRetry = 500 * time.Millisecond
	mostRetry  = 30 * time.Second

	reopenWithin = time.Second // after the end of a watch that was in order
)

// nodeName is a DNS subdomain: the names that Node objects can have. Nothing else
// may get into a field selector.
var nodeName = regexp.MustCompile(`^[a-z0-9]([-.a-z0-9]{0,251}[a-z0-9])?$`)

// FollowNode tells of a Node object until ctx ends; then it returns nil. It calls
// changed with the first answer of the API server, also when that has no such
// node, and whenever annotations, UID or existence are different from what was
// told last. States that did not last may be skipped, the last one never is. It
// calls refused for each answer 401 or 403, after it was logged: there is no sense in
// waiting for what the account has no right to.
//
// The only error is a name that no node can have.
func (c *Client) FollowNode(ctx context.Context, name string, changed func(Node), refused func()) error {
	if !nodeName.MatchString(name) {
		return fmt.Errorf("node name %q: want a DNS name in lower case", name)
	}
	session := &session{Client: c, ctx: ctx}
	defer session.close()
	f := &following{
		session: session,
		name:    name,
		changed: changed,
		trouble: c.trouble(name),
		pause:   backoff.Backoff{First: firstRetry, Most: mostRetry},
	}
	for ctx.Err() == nil {
		err := f.once(ctx)
		if ctx.Err() != nil {
			break
		}
		wait := f.pause.NextAfter(retryAfter(err))
		if !errors.Is(err, errExpired) {
			f.trouble.met(err, wait)
		}
		if errors.Is(err, ErrUnauthorized) || errors.Is(err, ErrForbidden) {
			refused()
		}
		sleep(ctx, wait)
	}
	return nil
}

// sleep returns after d, or when ctx ends.
func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// following is the state of one FollowNode, of its goroutine alone.
type following struct {
	*session
	name    string
	changed func(Node)
	trouble trouble
	pause   backoff.Backoff
	told    *Node // nil: nothing so far
}

// once lists, then watches from there, until one of them fails.
func (f *following) once(ctx context.Context) error {
	node, version, err := f.list(ctx)
	if err != nil {
		return fmt.Errorf("list node %s: %w", f.name, err)
	}
	f.tell(node)
	for ctx.Err() == nil {
		if version, err = f.watch(ctx, version); err != nil {
			return fmt.Errorf("watch node %s: %w", f.name, err)
		}
		// When an API server stops, the watches of all nodes end at the same time.
		sleep(ctx, rand.N(reopenWithin))
	}
	return ctx.Err()
}

// tell passes on what is different: a node's status changes every few seconds,
// and that wakes nobody.
func (f *following) tell(node Node) {
	if f.told != nil && f.told.equal(node) {
		return
	}
	f.told = &node
	f.changed(node)
}

func (f *following) selector() url.Values {
	return url.Values{"fieldSelector": {"metadata.name=" + f.name}}
}

// list asks for the node as it is now. It carries no resourceVersion: the answer
// is not older than what was told before.
func (f *following) list(ctx context.Context) (Node, string, error) {
	ctx, cancel := context.WithTimeout(ctx, requestWithin)
	defer cancel()
	answer, err := f.get(ctx, nodesPath, f.selector(), acceptList)
	if err != nil {
		return Node{}, "", needingNodes(err, "list")
	}
	defer answer.Body.Close()
	data, err := readAll(answer.Body)
	if err != nil {
		return Node{}, "", fmt.Errorf("API server %s: answer: %w", f.Address(), err)
	}
	node, version, err := parseList(data, f.name)
	if err != nil {
		return Node{}, "", fmt.Errorf("API server %s: %w", f.Address(), err)
	}
	return node, version, nil
}

// needingNodes is needing. Whoever does not want to give that right is told how to do
// without.
func needingNodes(err error, verb string) error {
	if refused, ok := errors.AsType[*refusal](needing(err, verb, "nodes")); ok && refused.Is(ErrForbidden) {
		refused.account += ", or --node-annotation=false"
	}
	return err
}
