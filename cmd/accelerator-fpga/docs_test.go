package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// The tables of docs/programming.md have a row for each error of programming that has a remedy,
// and no row for an error that does not exist.
func TestDocumentedErrors(t *testing.T) {
	text, err := os.ReadFile("../../docs/programming.md")
	if err != nil {
		t.Fatal(err)
	}
	var rows []string
	for _, table := range strings.Split(string(text), "\n| line | remedy |\n|---|---|\n")[1:] {
		table, _, _ = strings.Cut(table, "\n\n")
		for line := range strings.Lines(table) {
			for _, m := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(strings.Split(line, "|")[1], -1) {
				rows = append(rows, m[1])
			}
		}
	}
	var all []string
	for _, dir := range []string{"../../programming", "../../programming/fpga", "../../programming/hook", "../../internal/privatedir"} {
		for _, text := range stringsOf(t, dir) {
			all = append(all, text)
			remedy := strings.Contains(text, "want ") || strings.Contains(text, "found ") || strings.HasPrefix(text, ": ") && len(text) > len(": …")
			if remedy && !slices.ContainsFunc(rows, func(row string) bool { return strings.Contains(text, row) }) {
				t.Errorf("%s: no row of docs/programming.md for %q", dir, text)
			}
		}
	}
	all = append(append(all, stringsOf(t, ".")...), stringsOf(t, "../../internal/sysfs")...)
	// Texts of the runtime and of the system.
	foreign := []string{"no such file or directory", "permission denied", "unresolvable CDI devices", "read-only file system"}
	for _, row := range rows {
		if !slices.Contains(foreign, row) && !slices.ContainsFunc(all, func(text string) bool { return strings.Contains(text, row) }) {
			t.Errorf("docs/programming.md: no error has %q", row)
		}
	}
	if len(rows) < 30 {
		t.Errorf("%d rows found, want 30 or more", len(rows))
	}
}

// stringsOf returns the strings in the source of the package at dir, with … in place of verbs.
func stringsOf(t *testing.T, dir string) []string {
	t.Helper()
	files, err := filepath.Glob(dir + "/*.go")
	if err != nil {
		t.Fatal(err)
	}
	verb := regexp.MustCompile(`(%(\[\d\])?#?[a-z])+`)
	var texts []string
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(f, func(n ast.Node) bool {
			lit, ok := n.(*ast.BasicLit)
			if !ok || lit.Kind != token.STRING || strings.Contains(lit.Value, "\n") {
				return true
			}
			text, err := strconv.Unquote(lit.Value)
			if err != nil {
				t.Fatal(err)
			}
			texts = append(texts, verb.ReplaceAllString(text, "…"))
			return true
		})
	}
	return texts
}
