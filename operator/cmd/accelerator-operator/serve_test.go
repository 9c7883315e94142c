package main

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/cache"

	"b-com.com/accelerator-device-plugin/test/compare"
)

type filledCache struct {
	cache.Cache
	filled bool
}

func (c *filledCache) WaitForCacheSync(ctx context.Context) bool {
	_, bounded := ctx.Deadline()
	return bounded && c.filled
}

// A replica is ready when it serves, its cache is filled and its CA is injected. After that it does
// not read from API servers again.
func TestReady(t *testing.T) {
	served, mappings := errors.New("not started"), &filledCache{}
	trust, reads := errors.New("caBundle: unknown authority"), 0
	check := ready(func() error { return served }, mappings, func(context.Context) error {
		reads++
		return trust
	})
	expect := func(want string) {
		t.Helper()
		err := check(httptest.NewRequest(http.MethodGet, "/readyz", nil))
		compare.Outcome(t, "error", want, err)
	}
	expect("not started")
	served = nil
	expect("mappings have not been read")
	mappings.filled = true
	expect("unknown authority")
	trust = nil
	expect("")
	trust = errors.New("the API server is down")
	expect("")
	compare.Equal(t, "reads from API servers", 2, reads)
	served = errors.New("closed")
	expect("closed")
	if check := ready(func() error { return nil }, mappings, nil); check(httptest.NewRequest(http.MethodGet, "/readyz", nil)) != nil {
		t.Error("with certificates of cert-manager: not ready, want ready")
	}
}

// A replica that waits for the CA does not wait for the lease of a replica that never injects one.
func TestLease(t *testing.T) {
	injects := settings{mappings: true, webhookConfiguration: "w"}.lease()
	for _, s := range []settings{{webhookConfiguration: "w"}, {mappings: true}, {mappings: true, webhookConfiguration: "w", tlsCertDir: "/d"}} {
		if got := s.lease(); got == injects {
			t.Errorf("%+v: lease %s, want another lease than that of replicas that inject the CA", s, got)
		}
	}
}
