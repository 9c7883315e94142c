// Package privatedirtest creates directories for tests of packages that use package privatedir.
//
// The package owns no state.
package privatedirtest

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// Dir returns a new directory that package privatedir accepts, whatever the umask.
func Dir(t testing.TB) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "state")
	if err := errors.Join(os.Chmod(filepath.Dir(dir), 0o755), os.Mkdir(dir, 0o700)); err != nil {
		t.Fatalf("trusted directory: %v", err)
	}
	return dir
}
