package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// Section is a section in a version's changelog, such as Added, and its entries in Markdown.
type Section struct {
	Title   string
	Entries []string
}

// changes returns the version's sections in CHANGELOG.md. For a pre-release version, these can be the sections below
// Unreleased.
func (r Release) changes() ([]Section, error) {
	text, err := os.ReadFile(filepath.Join(r.Tree, "CHANGELOG.md"))
	if err != nil {
		return nil, err
	}
	if sections, ok := sections(text, `\[`+regexp.QuoteMeta(r.Version)+`\] - \d{4}-\d{2}-\d{2}`); ok {
		return sections, nil
	}
	if !strings.ContainsAny(r.Version, "-+") {
		return nil, fmt.Errorf("CHANGELOG.md: found no heading of %s, want `## [%s] - YEAR-MONTH-DAY` in place of `## [Unreleased]`", r.Version, r.Version)
	}
	if sections, ok := sections(text, `\[Unreleased\]`); ok {
		return sections, nil
	}
	return nil, fmt.Errorf("CHANGELOG.md: found no changes of %s, want `## [Unreleased]` or `## [%s] - YEAR-MONTH-DAY`", r.Version, r.Version)
}

// sections returns the sections of the version whose heading matches the pattern.
func sections(changelog []byte, heading string) (all []Section, ok bool) {
	at := regexp.MustCompile(`(?m)^## ` + heading + `$`).FindIndex(changelog)
	if at == nil {
		return nil, false
	}
	part, _, _ := bytes.Cut(changelog[at[1]:], []byte("\n## "))
	for _, text := range strings.Split(string(part), "\n### ")[1:] {
		title, list, _ := strings.Cut(text, "\n")
		s := Section{Title: title}
		for _, entry := range strings.Split("\n"+list, "\n- ")[1:] {
			s.Entries = append(s.Entries, strings.TrimSpace(entry))
		}
		all = append(all, s)
	}
	return all, true
}

var links = regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`)

// summary returns an entry's first sentence as plain text on a single line.
func summary(entry string) string {
	text := links.ReplaceAllString(strings.Join(strings.Fields(entry), " "), "$1")
	if end := strings.Index(text, ". "); end >= 0 {
		return text[:end+1]
	}
	return text
}
