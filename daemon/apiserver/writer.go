package apiserver

import (
	"context"
	"fmt"
	"time"
)

const (
	writeWithin = 10 * time.Second // time limit for one [Writer] request; other requests wait for it
	maxUID      = 256              // maximum length of a UID in bytes; most UIDs are 36 bytes long
)

// Writer writes Events and a Node condition. It belongs to one goroutine. It doesn't retry requests; the caller can do
// so after waiting for as long as Failed says.
type Writer struct {
	session session
	ctx     context.Context
	trouble trouble
}

// Writer returns a writer whose requests end when ctx is done. node is the node's name, for the log.
func (c *Client) Writer(ctx context.Context, node string) *Writer {
	return &Writer{session: session{Client: c}, ctx: ctx, trouble: c.trouble(node)}
}

// Close closes the writer's connections.
func (w *Writer) Close() { w.session.close() }

// Create creates an Event. It returns [ErrExists] if an Event with this name already exists, and [ErrNotFound] if the
// namespace doesn't exist.
func (w *Writer) Create(e Event) error { return w.write("create", e, "", e.whole()) }

// Grow updates an existing Event's count, time and message. It returns [ErrNotFound] if the Event no longer exists: by
// default, API servers only keep Events for an hour.
func (w *Writer) Grow(e Event) error { return w.write("patch", e, "/"+e.Name, e.growth()) }

func (w *Writer) write(verb string, e Event, suffix string, body []byte) error {
	path, err := e.path()
	if err != nil {
		return err
	}
	err = w.session.ask(w.ctx, writeWithin, call{verb: verb, resource: "events", path: path + suffix, body: body}, nil)
	if err != nil {
		return fmt.Errorf("%s event %s: %w", verb, e.Name, err)
	}
	return nil
}

// PodUID returns a pod's UID. It returns [ErrNotFound] if there is no pod with this name.
func (w *Writer) PodUID(namespace, name string) (string, error) {
	of := fmt.Sprintf("get pod %s/%s", clip(namespace), clip(name))
	if !dnsName.MatchString(namespace) || !dnsName.MatchString(name) {
		return "", fmt.Errorf("%s: want DNS names in lower case: %w", of, ErrRefused)
	}
	var pod object
	path := "/api/v1/namespaces/" + namespace + "/pods/" + name
	err := w.session.ask(w.ctx, writeWithin, call{verb: "get", resource: "pods", path: path}, &pod)
	if err == nil {
		err = pod.isPod(namespace, name)
	}
	if err != nil {
		return "", fmt.Errorf("%s: %w", of, err)
	}
	return pod.Metadata.UID, nil
}

// isPod returns an error if the object isn't the given pod or doesn't have a UID.
func (o object) isPod(namespace, name string) error {
	m := o.Metadata
	if m.Namespace != namespace || m.Name != name || m.UID == "" || len(m.UID) > maxUID {
		return fmt.Errorf("found pod %q in %q with uid %q, want %s/%s with its uid",
			clip(m.Name), clip(m.Namespace), clip(m.UID), namespace, name)
	}
	return nil
}

// Failed records a request that failed temporarily, and returns how long to wait before the next one. It logs the first
// failure of each kind.
func (w *Writer) Failed(err error) time.Duration { return w.trouble.failure(err) }

// Passed records a successful request. If recovered is true, no other requests are failing, so Passed logs the
// recovery.
func (w *Writer) Passed(recovered bool) {
	w.trouble.pause.Reset()
	if recovered {
		w.trouble.success()
	}
}
