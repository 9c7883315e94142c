// Package task runs a daemon's tasks in the background of a test. It doesn't have any state.
package task

import (
	"context"
	"sync"
	"testing"

	"b-com.com/accelerator-device-plugin/test/compare"
)

// Run runs a task until end is called or the test ends. It then waits for the task, and reports the task's error.
func Run(t testing.TB, run func(context.Context) error) (end func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- run(ctx) }()
	end = sync.OnceFunc(func() {
		cancel()
		compare.NoError(t, "task", <-ended)
	})
	t.Cleanup(end)
	return end
}
