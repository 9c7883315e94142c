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
	rows map[string][]time.Duration
}

func (t *table) add(what string, took time.Duration) {
	if t.rows == nil {
		t.rows = map[string][]time.Duration{}
	}
	t.rows[what] = append(t.rows[what], took)
}

func (t *table) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%-40s %4s %12s %12s\n", "from the cause until the kubelet had it", "n", "median", "worst")
	for _, what := range slices.Sorted(maps.Keys(t.rows)) {
		took := slices.Sorted(slices.Values(t.rows[what]))
		fmt.Fprintf(&b, "%-40s %4d %12s %12s\n", what, len(took), milli(took[len(took)/2]), milli(took[len(took)-1]))
	}
	return b.String()
}

func milli(d time.Duration) string {
	return fmt.Sprintf("%.1f ms", float64(d)/float64(time.Millisecond))
}
