package golden_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"b-com.com/accelerator-device-plugin/test/compare"
	"b-com.com/accelerator-device-plugin/test/golden"
	"b-com.com/accelerator-device-plugin/test/must"
)

// failing is a test that counts its failures.
type failing struct {
	testing.TB
	failures int
}

func (f *failing) Errorf(string, ...any) { f.failures++ }

// A different file makes the test fail, or with -update is written.
func TestCompareAndSection(t *testing.T) {
	defer func(update bool) { *golden.Update = update }(*golden.Update)
	page := filepath.Join(t.TempDir(), "page.md")
	must.Succeed(t, os.WriteFile(page, []byte("a\n<\nb\n>\nc\n"), 0o600))
	for i, step := range []struct {
		update   bool
		got      string
		failures int
	}{{false, "b\n", 0}, {false, "x\n", 1}, {true, "x\n", 0}, {false, "x\n", 0}, {false, "b\n", 1}} {
		*golden.Update = step.update
		section, whole := &failing{TB: t}, &failing{TB: t}
		golden.Section(section, page, "<\n", ">\n", step.got)
		golden.Compare(whole, page, "a\n<\n"+step.got+">\nc\n")
		compare.Equal(t, fmt.Sprintf("step %d: failures of Section and of Compare", i), [2]int{step.failures, step.failures}, [2]int{section.failures, whole.failures})
	}
}
