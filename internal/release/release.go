// Package release determines a program's version. It owns no state.
package release

import (
	"fmt"
	"runtime"
	"runtime/debug"
)

// Version returns the program's version. set is the version that the Makefile builds into the program. If set is ""
// because the program was built with go install, Version returns the module's version.
func Version(set string) string {
	if set != "" {
		return set
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "(devel)"
}

// Line returns the line that a program prints as its version.
func Line(program, version string) string {
	return fmt.Sprintf("%s %s %s %s/%s\n", program, version, runtime.Version(), runtime.GOOS, runtime.GOARCH)
}
