package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// table is how long things took, by what was measured.
type table struct {
	title string
	rows  map[string][]time.Duration
}

// tables are those of the whole boot.
type tables struct {
	cards  *table // of measure alone: nobody asks the daemon meanwhile
	causes *table // what stories do
	steps  *table
}

func newTables() tables {
	return tables{newTable("from the uevent until the kubelet had it"), newTable("from the cause until the kubelet had it"), newTable("what a step of it takes")}
}

func newTable(title string) *table { return &table{title, map[string][]time.Duration{}} }

func (t *table) add(what string, took time.Duration) { t.rows[what] = append(t.rows[what], took) }

func (t *table) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%-45s %4s %12s %12s\n", t.title, "n", "median", "worst")
	for _, what := range slices.Sorted(maps.Keys(t.rows)) {
		took := slices.Sorted(slices.Values(t.rows[what]))
		fmt.Fprintf(&b, "%-45s %4d %12s %12s\n", what, len(took), milli(median(took)), milli(took[len(took)-1]))
	}
	return b.String()
}

// median is the middle one of some that are sorted; of an even number the greater
// of the two.
func median(sorted []time.Duration) time.Duration { return sorted[len(sorted)/2] }

func milli(d time.Duration) string {
	return fmt.Sprintf("%.3f ms", float64(d)/float64(time.Millisecond))
}
