package compare_test

import (
	"errors"
	"fmt"
	"io/fs"
	"testing"

	"b-com.com/accelerator-device-plugin/test/compare"
)

// failing is a test that counts its failures.
type failing struct {
	testing.TB
	failures int
}

func (f *failing) Helper() {}

func (f *failing) Errorf(string, ...any) { f.failures++ }

// Each comparison fails if the values differ, and only then.
func TestComparisons(t *testing.T) {
	for name, compared := range map[string]struct{ alike, differs func(testing.TB) }{
		"Values": {
			func(t testing.TB) { compare.Values(t, "x", []int{1}, []int{1}) }, func(t testing.TB) { compare.Values(t, "x", []int{1}, []int{2}) },
		},
		"Equal":    {func(t testing.TB) { compare.Equal(t, "x", 1, 1) }, func(t testing.TB) { compare.Equal(t, "x", 1, 2) }},
		"Contains": {func(t testing.TB) { compare.Contains(t, "x", "b", "abc") }, func(t testing.TB) { compare.Contains(t, "x", "d", "abc") }},
		"Empty":    {func(t testing.TB) { compare.Empty(t, "x", []int(nil)) }, func(t testing.TB) { compare.Empty(t, "x", map[int]int{1: 1}) }},
		"Error": {
			func(t testing.TB) { compare.Error(t, "x", "b", errors.New("abc")) }, func(t testing.TB) { compare.Error(t, "x", "", nil) },
		},
		"NoError": {func(t testing.TB) { compare.NoError(t, "x", nil) }, func(t testing.TB) { compare.NoError(t, "x", errors.New("y")) }},
		"ErrorIs": {
			func(t testing.TB) { compare.ErrorIs(t, "x", fs.ErrExist, fmt.Errorf("y: %w", fs.ErrExist)) },
			func(t testing.TB) { compare.ErrorIs(t, "x", fs.ErrExist, nil) },
		},
		"Outcome, none": {func(t testing.TB) { compare.Outcome(t, "x", "", nil) }, func(t testing.TB) { compare.Outcome(t, "x", "", fs.ErrExist) }},
		"Outcome, an error": {
			func(t testing.TB) { compare.Outcome(t, "x", "exists", fs.ErrExist) }, func(t testing.TB) { compare.Outcome(t, "x", "exists", nil) },
		},
	} {
		alike, differs := &failing{}, &failing{}
		compared.alike(alike)
		compared.differs(differs)
		if alike.failures != 0 || differs.failures != 1 {
			t.Errorf("%s: %d failures for what is alike, %d for what differs, want 0 and 1", name, alike.failures, differs.failures)
		}
	}
}
