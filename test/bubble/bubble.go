// Package bubble runs subtests with fake time.
package bubble

import (
	"testing"
	"testing/synctest"
)

// Run runs f as a subtest in a bubble of package synctest.
func Run(t *testing.T, name string, f func(*testing.T)) {
	t.Helper()
	t.Run(name, func(t *testing.T) { synctest.Test(t, f) })
}
