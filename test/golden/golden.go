// Package golden compares output with a file in the repository, such as a golden file or a generated document. If you
// run the tests of a package with -update, they write the file instead.
package golden

import (
	"flag"
	"os"
	"strings"
	"testing"

	"b-com.com/accelerator-device-plugin/test/compare"
	"b-com.com/accelerator-device-plugin/test/must"
)

// Update is the flag -update, for tests that do more than Compare and Section.
var Update = flag.Bool("update", false, "write the golden files and the generated documents")

// Compare compares got with the file at path, or writes the file.
func Compare(t testing.TB, path, got string) {
	t.Helper()
	if *Update {
		must.Succeed(t, os.WriteFile(path, []byte(got), 0o644))
		return
	}
	want := must.Value(os.ReadFile(path))(t)
	compare.Values(t, path+", which go test -update writes", string(want), got)
}

// Section is like [Compare], but only for the part of a document between the lines begin and end.
func Section(t testing.TB, path, begin, end, got string) {
	t.Helper()
	text := must.Value(os.ReadFile(path))(t)
	before, rest, begun := strings.Cut(string(text), begin)
	_, after, ended := strings.Cut(rest, end)
	if !begun || !ended {
		t.Fatalf("%s: found no line %q, or no line %q after it", path, begin, end)
	}
	Compare(t, path, before+begin+got+end+after)
}
