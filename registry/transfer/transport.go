package transfer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"
)

// refusal is an error for what is never allowed. Trying again would not help.
type refusal struct{ error }

// lost is the error of a connection that broke while a body was transferred. Trying again may help.
type lost struct{ error }

func (l lost) Unwrap() error { return l.error }

// transport refuses requests that would reveal credentials or content, and ends those that stall.
type transport struct {
	base  http.RoundTripper
	host  string // of the registry, without its port
	plain bool   // http is allowed with this host
	stall time.Duration
}

func (t transport) RoundTrip(req *http.Request) (*http.Response, error) {
	if err := t.check(req); err != nil {
		if req.Body != nil {
			req.Body.Close()
		}
		return nil, err
	}
	ctx, cancel := context.WithCancelCause(req.Context())
	stalled := fmt.Errorf("%s: found no byte for %s, want an answer", req.URL.Host, t.stall)
	timer := time.AfterFunc(t.stall, func() { cancel(lost{stalled}) })
	req = req.WithContext(ctx)
	if req.Body != nil && req.Body != http.NoBody {
		// A registry may check a large file before it answers.
		req.Body = &watched{req.Body, timer, t.stall, 10 * t.stall, nil}
	}
	resp, err := t.base.RoundTrip(req)
	timer.Stop()
	if err != nil {
		err = cause(ctx, err)
		cancel(nil)
		return nil, err
	}
	resp.Body = &body{watched{resp.Body, timer, t.stall, 0, cancel}, ctx}
	return resp, nil
}

// cause returns the reason for which the context ended, or err.
func cause(ctx context.Context, err error) error {
	return cmp.Or(context.Cause(ctx), err)
}

// check returns an error for a request that is not allowed. Requests come from the user's reference, from redirects, and
// from the challenges by which a registry names its token server.
func (t transport) check(req *http.Request) error {
	host := req.URL.Hostname()
	if req.URL.Scheme != "https" && !(req.URL.Scheme == "http" && t.plain && strings.EqualFold(host, t.host)) {
		return refusal{fmt.Errorf("%s: found %s, want https (--plain-http allows http with the registry itself)", req.URL.Host, req.URL.Scheme)}
	}
	secret := req.Header.Get("Authorization") != "" || req.Body != nil && req.Body != http.NoBody
	if secret && !sameDomain(host, t.host) {
		return refusal{fmt.Errorf("%s: found a token server or an upload in another domain, want it in that of the registry %s, which gets the credentials", req.URL.Host, t.host)}
	}
	return nil
}

// sameDomain reports whether a host is the registry, below it, or in its parent domain, as auth.example.com is for
// registry.example.com.
func sameDomain(host, registry string) bool {
	host, registry = strings.ToLower(host), strings.ToLower(registry)
	_, parent, _ := strings.Cut(registry, ".")
	if host == registry || net.ParseIP(registry) != nil {
		return host == registry
	}
	return strings.HasSuffix(host, "."+registry) ||
		strings.Contains(parent, ".") && (host == parent || strings.HasSuffix(host, "."+parent))
}

// watched is a body with a timer, which ends the request if a read takes too long.
type watched struct {
	io.ReadCloser
	timer        *time.Timer
	limit, after time.Duration // of a read; from the end of a request's body until the answer
	cancel       context.CancelCauseFunc
}

func (w *watched) Read(p []byte) (int, error) {
	w.timer.Reset(w.limit)
	n, err := w.ReadCloser.Read(p)
	switch {
	case w.cancel != nil: // an answer: the time that the reader needs does not count
		w.timer.Stop()
	case err == nil: // a request: until the next read, these bytes are sent
		w.timer.Reset(w.limit)
	default:
		w.timer.Reset(w.after)
	}
	return n, err
}

// body is the body of an answer.
type body struct {
	watched
	ctx context.Context
}

func (b *body) Read(p []byte) (int, error) {
	n, err := b.watched.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		err = lost{cause(b.ctx, err)}
	}
	return n, err
}

func (b *body) Close() error {
	b.timer.Stop()
	err := b.ReadCloser.Close()
	b.cancel(nil)
	return err
}
