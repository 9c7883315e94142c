package main

import (
	"fmt"
	"io"
	"time"
)

// table records how long every story and step took.
type table struct{ rows []row }

// row is a story or a step. failed is its error, or "" if it passed.
type row struct {
	name, failed string
	took         time.Duration
	steps        []row
}

// begin starts a row, and returns a function that ends it. failed is the row's error, or "".
func (t *table) begin(name string) (end func(failed string, steps ...row)) {
	i, began := len(t.rows), time.Now()
	t.rows = append(t.rows, row{name: name})
	return func(failed string, steps ...row) {
		t.rows[i].took, t.rows[i].failed, t.rows[i].steps = time.Since(began), failed, steps
	}
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
