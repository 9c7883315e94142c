// Package release returns a program's version. It owns no state.
package release

import (
	"fmt"
	"runtime"
	"runtime/debug"
)

// Version returns the version that the Makefile has set in a program. For a program built with go install, it returns
// the module's version.
func Version(set string) string {
	if set != "" {
		return set
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "(devel)"
}

// Line returns what a program prints as its version.
func Line(program, version string) string {
	return fmt.Sprintf("%s %s %s %s/%s\n", program, version, runtime.Version(), runtime.GOOS, runtime.GOARCH)
}
