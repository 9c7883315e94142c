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

// lost is the error for a connection that stalled, or that broke while a body was being transferred. A retry may help.
type lost struct{ error }

func (l lost) Unwrap() error { return l.error }

// transport rejects requests that would reveal credentials or content, and cancels requests that stall.
type transport struct {
	base  http.RoundTripper
	host  string // the registry's host name, without the port
	plain bool   // whether HTTP is allowed for this host
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
	if req.Method == http.MethodPut && req.Body != nil {
		req.Body = upload{req.Body, timer, t.stall}
	}
	resp, err := t.base.RoundTrip(req)
	timer.Stop()
	if err != nil {
		err = cause(ctx, err)
		cancel(nil)
		return nil, err
	}
	resp.Body = answer{resp.Body, timer, t.stall, ctx, cancel}
	return resp, nil
}

// cause returns the reason why ctx is done. If it isn't done, cause returns err.
func cause(ctx context.Context, err error) error {
	return cmp.Or(context.Cause(ctx), err)
}

// check returns an error if a request isn't allowed. This is necessary because the request's URL doesn't always come
// from the user's reference: it can also come from a redirect, or from a challenge in which the registry names its
// token server.
func (t transport) check(req *http.Request) error {
	host := req.URL.Hostname()
	if req.URL.Scheme != "https" && !(req.URL.Scheme == "http" && t.plain && strings.EqualFold(host, t.host)) {
		return fmt.Errorf("%s: found %s, want https (--plain-http allows http with the registry itself)", req.URL.Host, req.URL.Scheme)
	}
	secret := req.Header.Get("Authorization") != "" || req.Body != nil && req.Body != http.NoBody
	if secret && !sameDomain(host, t.host) {
		return fmt.Errorf("%s: found a token server or an upload in another domain, want it in the domain of the registry %s, which gets the credentials", req.URL.Host, t.host)
	}
	return nil
}

// sameDomain reports whether host is the registry, is one of its subdomains, or is in its parent domain. For example,
// auth.example.com and registry.example.com have the same parent domain.
func sameDomain(host, registry string) bool {
	host, registry = strings.ToLower(host), strings.ToLower(registry)
	_, parent, _ := strings.Cut(registry, ".")
	if host == registry || net.ParseIP(registry) != nil {
		return host == registry
	}
	return strings.HasSuffix(host, "."+registry) ||
		strings.Contains(parent, ".") && (host == parent || strings.HasSuffix(host, "."+parent))
}

// upload is the body of a PUT request. Its timer cancels the request if the connection stops accepting data. (POST
// requests, which are for tokens, are too small to need this.)
type upload struct {
	io.ReadCloser
	timer *time.Timer
	stall time.Duration
}

func (u upload) Read(p []byte) (int, error) {
	n, err := u.ReadCloser.Read(p)
	limit := u.stall
	if err != nil { // the body has ended; allow for a registry that checks a large file before it responds
		limit *= 10
	}
	u.timer.Reset(limit)
	return n, err
}

// answer is the body of a response. Its timer cancels the request if a read takes too long.
type answer struct {
	io.ReadCloser
	timer  *time.Timer
	stall  time.Duration
	ctx    context.Context
	cancel context.CancelCauseFunc
}

func (a answer) Read(p []byte) (int, error) {
	a.timer.Reset(a.stall)
	n, err := a.ReadCloser.Read(p)
	a.timer.Stop() // the time between reads is up to the reader and doesn't count
	if err != nil && !errors.Is(err, io.EOF) {
		err = lost{cause(a.ctx, err)}
	}
	return n, err
}

func (a answer) Close() error {
	a.timer.Stop()
	err := a.ReadCloser.Close()
	a.cancel(nil)
	return err
}
