// Package compare compares what a test wants with what it got. If they differ, it reports an error, and the test goes
// on.
package compare

import (
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Values compares whole values and shows how they differ. what describes them, such as "log" or "answer of the hook".
func Values(t testing.TB, what string, want, got any, options ...cmp.Option) {
	t.Helper()
	if diff := cmp.Diff(want, got, options...); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// Equal compares small values, such as numbers and strings.
func Equal[T comparable](t testing.TB, what string, want, got T) {
	t.Helper()
	if got != want {
		t.Errorf("%s: found %v, want %v", what, got, want)
	}
}

// Contains checks that text contains part.
func Contains(t testing.TB, what, part, text string) {
	t.Helper()
	if !strings.Contains(text, part) {
		t.Errorf("%s: found %q, want %q in it", what, text, part)
	}
}

// Empty checks that a slice or a map is empty.
func Empty(t testing.TB, what string, got any) {
	t.Helper()
	if reflect.ValueOf(got).Len() > 0 {
		t.Errorf("%s: found %v, want none", what, got)
	}
}

// Error checks that there is an error and that its text contains part. If part is "", any error will do.
func Error(t testing.TB, what, part string, err error) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), part) {
		t.Errorf("%s: found error %v, want one with %q", what, err, part)
	}
}

// Outcome is like [NoError] if part is "", and otherwise like [Error].
func Outcome(t testing.TB, what, part string, err error) {
	t.Helper()
	if part == "" {
		NoError(t, what, err)
		return
	}
	Error(t, what, part, err)
}

// ErrorOf returns the error from a call that also returns a value.
func ErrorOf[T any](_ T, err error) error { return err }

// ErrorIs checks that err is or wraps want.
func ErrorIs(t testing.TB, what string, want, err error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("%s: found error %v, want %v", what, err, want)
	}
}

// NoError checks that there is no error.
func NoError(t testing.TB, what string, err error) {
	t.Helper()
	if err != nil {
		t.Errorf("%s: found error %v, want none", what, err)
	}
}
