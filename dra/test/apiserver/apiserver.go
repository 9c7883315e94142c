// Package apiserver starts a real API server for tests.
package apiserver

import (
	"os"
	"testing"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"b-com.com/accelerator-device-plugin/test/must"
)

// Start starts etcd and an API server, and returns a client configuration for an administrator. Both are stopped when
// the test ends. Start skips the test unless ACCELERATOR_E2E_BIN is set to the directory that contains both programs.
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
