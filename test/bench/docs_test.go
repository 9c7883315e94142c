package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"

	"b-com.com/accelerator-device-plugin/test/must"
)

// Each `make bench ROWS=…` in the docs selects a measurement, except for the placeholder PATTERN.
func TestDocumentedRows(t *testing.T) {
	all := groups("")
	found := 0
	for _, page := range must.Value(filepath.Glob("../../docs/*.md"))(t) {
		for _, m := range regexp.MustCompile("`make bench ROWS=([^`A-Z]+)`").FindAllStringSubmatch(string(must.Value(os.ReadFile(page))(t)), -1) {
			found++
			pattern := regexp.MustCompile(m[1])
			if !slices.ContainsFunc(all, func(g group) bool { return pattern.MatchString(g.name) }) {
				t.Errorf("%s: ROWS=%s: found no measurement with this in its name", page, m[1])
			}
		}
	}
	if found < 10 {
		t.Errorf("found %d commands in docs, want at least 10", found)
	}
}
