package apiserver

import (
	"context"
	"fmt"
	"time"
)

const (
	writeWithin = 10 * time.Second // for one request of a [Writer]: others wait behind it
	maxUID      = 256              // bytes; a uid has far fewer
)

// Writer writes Events. It belongs to one goroutine. It does not repeat requests: its caller
// does, and Failed returns how long to wait before.
type Writer struct {
	session session
	ctx     context.Context
	trouble trouble
}

// Writer returns a writer whose requests end with ctx. The node is for the log.
func (c *Client) Writer(ctx context.Context, node string) *Writer {
	return &Writer{session: session{Client: c}, ctx: ctx, trouble: c.trouble(node)}
}

// Close closes its connections.
func (w *Writer) Close() { w.session.close() }

// Create makes an Event. The error is [ErrExists] if there is one of its name, and [ErrNotFound]
// if there is no such namespace.
func (w *Writer) Create(e Event) error { return w.write("create", e, "", e.whole()) }

// Grow gives an existing Event its new count, time and message. The error is [ErrNotFound] if it
// no longer exists: API servers keep Events for an hour by default.
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

// PodUID returns the uid of a pod. The error is [ErrNotFound] if there is none of that name.
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

// isPod returns an error unless the object is that pod, with a uid.
func (o object) isPod(namespace, name string) error {
	m := o.Metadata
	if m.Namespace != namespace || m.Name != name || m.UID == "" || len(m.UID) > maxUID {
		return fmt.Errorf("pod %q in %q, uid %q: want %s/%s, and its uid",
			clip(m.Name), clip(m.Namespace), clip(m.UID), namespace, name)
	}
	return nil
}

// Failed notes that a request failed for a reason that may pass, and returns how
// long to wait before the next one. The first failure of each kind is logged.
func (w *Writer) Failed(err error) time.Duration { return w.trouble.met(err) }

// Passed notes that a request succeeded. If all is well besides, trouble is over, and that is
// logged.
func (w *Writer) Passed(well bool) {
	w.trouble.pause.Reset()
	if well {
		w.trouble.passed()
	}
}
