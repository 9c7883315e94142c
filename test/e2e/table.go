package main

import (
	"fmt"
	"io"
	"time"
)

// table has the times of all stories and steps.
type table struct {
	rows  []row
	began time.Time
}

// row is a story or a step. failed is its error, or "".
type row struct {
	name, failed string
	took         time.Duration
	steps        []row
}

// begin begins a row.
func (t *table) begin(name string) {
	t.rows = append(t.rows, row{name: name})
	t.began = time.Now()
}

// end ends the last row. failed is its error, or "".
func (t *table) end(failed string, steps ...row) {
	last := &t.rows[len(t.rows)-1]
	last.took, last.failed, last.steps = time.Since(t.began), failed, steps
}

func (t *table) print(w io.Writer) {
	fmt.Fprintf(w, "\n%8s  %s\n", "seconds", "")
	for _, r := range t.rows {
		r.print(w, "")
		for _, step := range r.steps {
			step.print(w, "  ")
		}
	}
}

func (r row) print(w io.Writer, indent string) {
	mark := ""
	if r.failed != "" {
		mark = "FAILED: "
	}
	fmt.Fprintf(w, "%8.2f  %s%s%s\n", r.took.Seconds(), indent, mark, r.name)
}
