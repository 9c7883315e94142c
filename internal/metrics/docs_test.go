package metrics_test

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"b-com.com/accelerator-device-plugin/test/golden"
)

const (
	docs  = "../../docs/metrics.md"
	begin = "<!-- made by go test ./internal/metrics -update -->\n"
	end   = "<!-- end of what is made -->\n"
)

// The table of docs/metrics.md contains all metrics. The metrics of the DRA driver are at the end.
func TestDocs(t *testing.T) {
	golden.Section(t, docs, begin, end, table(t))
}

// descriptor is the form of the text that the String method of a descriptor returns.
var descriptor = regexp.MustCompile(`^Desc{fqName: (".*"), help: (".*"), unit: "", constLabels: {}, variableLabels: {(.*)}}$`)

// table returns the table of all described metrics. Their types are taken from the page.
func table(t *testing.T) string {
	t.Helper()
	descriptors := make(chan *prometheus.Desc, 1000)
	m := story()
	m.Describe(descriptors)
	close(descriptors)
	page := families(t, m)
	var b strings.Builder
	b.WriteString("| metric | type | labels | meaning |\n|---|---|---|---|\n")
	for d := range descriptors {
		parts := descriptor.FindStringSubmatch(d.String())
		if parts == nil {
			t.Fatalf("descriptor: found %s, want the form %s", d, descriptor)
		}
		name, err := strconv.Unquote(parts[1])
		help, err2 := strconv.Unquote(parts[2])
		if err != nil || err2 != nil || page[name] == nil {
			t.Fatalf("%s: %v; on the page: %v", d, errors.Join(err, err2), page[name])
		}
		labels := ""
		if parts[3] != "" {
			labels = "`" + strings.ReplaceAll(parts[3], ",", "`, `") + "`"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", name, strings.ToLower(page[name].GetType().String()), labels, help)
	}
	m.AddDriver(driver, func() int { return 2 })
	all := families(t, m)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if f := all[name]; page[name] == nil { // these have no labels
			fmt.Fprintf(&b, "| `%s` | %s |  | %s |\n", name, strings.ToLower(f.GetType().String()), f.GetHelp())
		}
	}
	return b.String()
}
