package rows

import (
	"strings"

	"k8s.io/apimachinery/pkg/util/version"
)

// older reports whether the release of a version is older than the release of another one. What is not a version is not older.
func older(a, b string) bool {
	va, err := release(a)
	if err != nil {
		return false
	}
	vb, err := release(b)
	return err == nil && va.LessThan(vb)
}

// release parses a version such as 0.3.0-dev+1a2b3c4d5e6f, of a commit before the release 0.3.0: that release.
func release(s string) (*version.Version, error) {
	s, _, _ = strings.Cut(s, "-")
	return version.ParseGeneric(s)
}
