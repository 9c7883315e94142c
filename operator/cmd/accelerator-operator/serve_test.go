package main

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
)

type startedServer struct {
	webhook.Server
	err error
}

func (s *startedServer) StartedChecker() healthz.Checker {
	return func(*http.Request) error { return s.err }
}

type filledCache struct {
	cache.Cache
	filled bool
}

func (c *filledCache) WaitForCacheSync(ctx context.Context) bool {
	_, bounded := ctx.Deadline()
	return bounded && c.filled
}

// A replica becomes ready when nothing is missing. Then API servers are not asked again.
func TestReady(t *testing.T) {
	server, mappings := &startedServer{err: errors.New("not started")}, &filledCache{}
	trust, asked := errors.New("caBundle: unknown authority"), 0
	check := ready(server, mappings, func(context.Context) error {
		asked++
		return trust
	})
	expect := func(want string) {
		t.Helper()
		err := check(httptest.NewRequest(http.MethodGet, "/readyz", nil))
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
	expect("not started")
	server.err = nil
	expect("mappings have not been read")
	mappings.filled = true
	expect("unknown authority")
	trust = nil
	expect("")
	trust = errors.New("the API server is down")
	expect("")
	if asked != 2 {
		t.Errorf("API servers were asked %d times, want 2", asked)
	}
	server.err = errors.New("closed")
	expect("closed")
	if check := ready(&startedServer{}, mappings, nil); check(httptest.NewRequest(http.MethodGet, "/readyz", nil)) != nil {
		t.Error("certificates from elsewhere: not ready")
	}
}

// A replica that waits for the CA does not wait for the lease of one that never injects it.
func TestLease(t *testing.T) {
	injects := settings{mappings: true, webhookConfiguration: "w"}.lease()
	for _, s := range []settings{{webhookConfiguration: "w"}, {mappings: true}, {mappings: true, webhookConfiguration: "w", tlsCertDir: "/d"}} {
		if got := s.lease(); got == injects {
			t.Errorf("%+v: lease %s, want another than where the CA is injected", s, got)
		}
	}
}
