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

// release parses a version such as v0.3.0-5-g1a2b3c4: the release before that commit.
func release(s string) (*version.Version, error) {
	s, _, _ = strings.Cut(s, "-")
	return version.ParseGeneric(s)
}
