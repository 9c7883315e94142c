// Package compare compares what a test wants with what it got. It is for tests only.
package compare

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Values fails the test if two values differ, and shows the difference. what names the values: "log", "answer of the hook".
func Values(t testing.TB, what string, want, got any, options ...cmp.Option) {
	t.Helper()
	if diff := cmp.Diff(want, got, options...); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// Equal fails the test if two small values differ: numbers, texts, answers. what names the value.
func Equal[T comparable](t testing.TB, what string, want, got T) {
	t.Helper()
	if got != want {
		t.Errorf("%s: found %v, want %v", what, got, want)
	}
}
