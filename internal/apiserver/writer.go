package apiserver

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"

	"b-com.com/accelerator-device-plugin/internal/backoff"
)

// writeWithin is how long one request of a [Writer] may take. Nobody waits for an
// Event, but others wait behind it.
const writeWithin = 10 * time.Second

const (
	acceptObject = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json"
	mergePatch   = "application/merge-patch+json"
)

// Writer writes Events. It belongs to one goroutine, and its connections end with
// the context that it was made with, or with Close. Its requests are not repeated:
// that is the caller's, who asks Failed how long to wait.
type Writer struct {
	session *session
	trouble trouble
	pause   backoff.Backoff
}

// Writer makes a writer for the node that the caller speaks for, which is for the
// log.
func (c *Client) Writer(ctx context.Context, node string) *Writer {
	return &Writer{
		session: &session{Client: c, ctx: ctx},
		trouble: c.trouble(node),
		pause:   backoff.Backoff{First: firstRetry, Most: mostRetry},
	}
}

// Close ends its connections.
func (w *Writer) Close() { w.session.close() }

// Create makes an Event. The error is [ErrExists] where there is one of its name,
// and [ErrNotFound] where there is no such namespace.
func (w *Writer) Create(e Event) error {
	path, err := e.path()
	if err != nil {
		return err
	}
	err = w.write(call{method: http.MethodPost, path: path, accept: acceptObject, kind: "application/json", body: e.whole()})
	if err != nil {
		return fmt.Errorf("create event %s: %w", e.Name, needing(err, "create", "events"))
	}
	return nil
}

// Grow gives an Event that was made its new count, time and message. The error is
// [ErrNotFound] where it is not there any more: the API server keeps Events for an
// hour, unless it is told otherwise.
func (w *Writer) Grow(e Event) error {
	path, err := e.path()
	if err != nil {
		return err
	}
	err = w.write(call{method: http.MethodPatch, path: path + "/" + e.Name, accept: acceptObject, kind: mergePatch, body: e.growth()})
	if err != nil {
		return fmt.Errorf("patch event %s: %w", e.Name, needing(err, "patch", "events"))
	}
	return nil
}

// write makes a request of whose answer nothing is wanted.
func (w *Writer) write(c call) error {
	ctx, cancel := context.WithTimeout(w.session.ctx, writeWithin)
	defer cancel()
	answer, err := w.session.do(ctx, c)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	// So that the connection can be used again; what does not come changes nothing.
	_, _ = io.CopyN(io.Discard, answer.Body, maxRefusal)
	return nil
}

// PodUID asks which pod has a name. The error is [ErrNotFound] where none has.
func (w *Writer) PodUID(namespace, name string) (string, error) {
	ctx, cancel := context.WithTimeout(w.session.ctx, writeWithin)
	defer cancel()
	what := fmt.Sprintf("get pod %s/%s", clip(namespace), clip(name))
	if !nodeName.MatchString(namespace) || !nodeName.MatchString(name) {
		return "", fmt.Errorf("%s: want DNS names in lower case: %w", what, ErrRefused)
	}
	answer, err := w.session.get(ctx, "/api/v1/namespaces/"+namespace+"/pods/"+name, nil, acceptObject)
	if err != nil {
		return "", fmt.Errorf("%s: %w", what, needing(err, "get", "pods"))
	}
	defer answer.Body.Close()
	data, err := readAll(answer.Body)
	if err != nil {
		return "", fmt.Errorf("%s: API server %s: answer: %w", what, w.session.Address(), err)
	}
	uid, err := parsePod(data, namespace, name)
	if err != nil {
		return "", fmt.Errorf("%s: API server %s: %w", what, w.session.Address(), err)
	}
	return uid, nil
}

// parsePod reads the uid of a pod.
func parsePod(data []byte, namespace, name string) (string, error) {
	var pod object
	if err := json.Unmarshal(data, &pod); err != nil {
		return "", fmt.Errorf("not a pod: %w", err)
	}
	m := pod.Metadata
	if m.Namespace != namespace || m.Name != name || m.UID == "" || len(m.UID) > maxUID {
		return "", fmt.Errorf("pod %q in %q, uid %q: want %s/%s, and its uid", clip(m.Name), clip(m.Namespace), clip(m.UID), namespace, name)
	}
	return m.UID, nil
}

// maxUID is more than a uid has in bytes, by far.
const maxUID = 256

// Failed notes that a request failed for a reason that may pass, and returns how
// long to wait before the next one. Of each kind of trouble the first is logged.
func (w *Writer) Failed(err error) time.Duration {
	wait := w.pause.NextAfter(retryAfter(err))
	w.trouble.met(err, wait)
	return wait
}

// Passed notes that a request was served. Trouble is over, and that is logged,
// when all is well besides.
func (w *Writer) Passed(well bool) {
	w.pause.Reset()
	if well {
		w.trouble.passed()
	}
}
