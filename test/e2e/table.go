package main

import (
	"fmt"
	"io"
	"time"
)

// table is how long everything took.
type table struct {
	rows  []row
	began time.Time
}

type row struct {
	name, wrong string
	took        time.Duration
	steps       []row
}

// begin begins a row.
func (t *table) begin(name string) {
	t.rows = append(t.rows, row{name: name})
	t.began = time.Now()
}

// end ends the last row; wrong is what went wrong, if something did.
func (t *table) end(wrong string, steps ...row) {
	last := &t.rows[len(t.rows)-1]
	last.took, last.wrong, last.steps = time.Since(t.began), wrong, steps
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
	if r.wrong != "" {
		mark = "FAILED: "
	}
	fmt.Fprintf(w, "%8.2f  %s%s%s\n", r.took.Seconds(), indent, mark, r.name)
}
