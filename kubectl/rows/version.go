package rows

import (
	"strings"

	"k8s.io/apimachinery/pkg/util/version"
)

// older reports whether version a belongs to an older release than version b. It returns false if either isn't a
// version.
func older(a, b string) bool {
	va, err := release(a)
	if err != nil {
		return false
	}
	vb, err := release(b)
	return err == nil && va.LessThan(vb)
}

// release returns the release that a version belongs to. For 0.3.0-dev+1a2b3c4d5e6f, a commit before release 0.3.0, it
// returns 0.3.0.
func release(s string) (*version.Version, error) {
	s, _, _ = strings.Cut(s, "-")
	return version.ParseGeneric(s)
}
