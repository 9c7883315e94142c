package metrics_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"b-com.com/accelerator-device-plugin/internal/metrics"
)

const (
	docs  = "../../docs/metrics.md"
	begin = "<!-- made by go test ./internal/metrics -update -->\n"
	end   = "<!-- end of what is made -->\n"
)

// The table of docs/metrics.md has the declared metrics.
func TestDocs(t *testing.T) {
	text, err := os.ReadFile(docs)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(text), begin)
	_, after, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		t.Fatalf("%s lacks one of the lines %q, %q", docs, begin, end)
	}
	golden(t, docs, before+begin+table()+end+after)
}

func table() string {
	var b strings.Builder
	b.WriteString("| metric | type | labels | what it tells |\n|---|---|---|---|\n")
	for _, d := range metrics.Declarations() {
		labels := ""
		if len(d.Labels) > 0 {
			labels = "`" + strings.Join(d.Labels, "`, `") + "`"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", d.Name, d.Type, labels, d.Help)
	}
	return b.String()
}
