// Package privatedirtest creates directories for testing packages that use package privatedir.
//
// The package doesn't have any state.
package privatedirtest

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// Dir returns a new directory that package privatedir accepts, regardless of the umask.
func Dir(t testing.TB) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "state")
	if err := errors.Join(os.Chmod(filepath.Dir(dir), 0o755), os.Mkdir(dir, 0o700)); err != nil {
		t.Fatalf("trusted directory: %v", err)
	}
	return dir
}
