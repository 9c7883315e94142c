// Package must ends a test immediately if a setup step fails, for example if a file can't be written or a server
// doesn't start. To check the behavior under test, use package compare.
package must

import "testing"

// Succeed ends the test on the first error.
func Succeed(t testing.TB, errs ...error) {
	t.Helper()
	for _, err := range errs {
		if err != nil {
			t.Fatal(err)
		}
	}
}

// Value returns a call's result, or ends the test if the call failed: must.Value(os.ReadFile(path))(t).
func Value[T any](value T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		Succeed(t, err)
		return value
	}
}
