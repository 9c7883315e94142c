package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// table contains the times measured for each interval, by name.
type table struct {
	title string
	rows  map[string][]time.Duration
}

// tables holds the tables collected since boot.
type tables struct {
	cards  *table // times from the measure verb, which doesn't query the daemon while it measures
	causes *table // times of all other actions
	steps  *table // times of single steps
}

func newTables() tables {
	return tables{newTable("from the uevent until the kubelet had it"), newTable("from the cause until the kubelet had it"), newTable("time of a single step")}
}

func newTable(title string) *table { return &table{title, map[string][]time.Duration{}} }

func (t *table) add(name string, took time.Duration) { t.rows[name] = append(t.rows[name], took) }

func (t *table) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%-45s %4s %12s %12s\n", t.title, "n", "median", "worst")
	for _, name := range slices.Sorted(maps.Keys(t.rows)) {
		took := slices.Sorted(slices.Values(t.rows[name]))
		fmt.Fprintf(&b, "%-45s %4d %12s %12s\n", name, len(took), milli(median(took)), milli(took[len(took)-1]))
	}
	return b.String()
}

// median returns the median of sorted durations. If their number is even, it returns the larger of the two middle ones.
func median(sorted []time.Duration) time.Duration { return sorted[len(sorted)/2] }

func milli(d time.Duration) string {
	return fmt.Sprintf("%.3f ms", float64(d)/float64(time.Millisecond))
}
