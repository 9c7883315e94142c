// Package apiserver starts a real API server for tests.
package apiserver

import (
	"os"
	"testing"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"b-com.com/accelerator-device-plugin/test/must"
)

// Start starts etcd and an API server, which end with the test, and returns how an administrator reaches it. The test is
// skipped if ACCELERATOR_E2E_BIN, a directory with both programs, is not set.
func Start(t *testing.T) *rest.Config {
	bin := os.Getenv("ACCELERATOR_E2E_BIN")
	if bin == "" {
		t.Skip("NOT RUN: ACCELERATOR_E2E_BIN: found none, want a directory with etcd and kube-apiserver; make test-dra sets it if make e2e has built them")
	}
	env := &envtest.Environment{BinaryAssetsDirectory: bin}
	config := must.Value(env.Start())(t)
	t.Cleanup(func() { must.Succeed(t, env.Stop()) })
	config.QPS = -1
	return config
}
