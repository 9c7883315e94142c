package main

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestTable(t *testing.T) {
	table := newTable("how long")
	for _, ms := range []int{40, 10, 30, 20} {
		table.add("b: even", time.Duration(ms)*time.Millisecond)
	}
	for _, us := range []int{3, -1500, 2} {
		table.add("a: odd", time.Duration(us)*time.Microsecond)
	}
	table.add("c: one", time.Second)
	want := `
how long                                         n       median        worst
a: odd                                           3     0.002 ms     0.003 ms
b: even                                          4    30.000 ms    40.000 ms
c: one                                           1  1000.000 ms  1000.000 ms
`
	if diff := cmp.Diff(want, "\n"+table.String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
