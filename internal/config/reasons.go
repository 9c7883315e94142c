package config

import (
	"fmt"
	"slices"
	"strings"
)

// reasons are those that a device can have.
type reasons struct {
	// rows may be overruled: each row of the health tables, NAME or NAME=VALUE, and the NAME
	// of each, sorted.
	rows []string
	own  []string // the daemon's own, by NAME
}

func newReasons(v Vocabulary) reasons {
	rows := slices.Clone(v.Rows)
	for _, row := range v.Rows {
		rows = append(rows, nameOf(row))
	}
	slices.Sort(rows)
	return reasons{slices.Compact(rows), v.Reasons}
}

// nameOf is what a reason is called without its value.
func nameOf(reason string) string {
	name, _, _ := strings.Cut(reason, "=")
	return name
}

// check returns nil for a reason that may be overruled, else an error that says
// which ones may, those first that are spelled nearly like it.
func (rs reasons) check(reason string) error {
	if slices.Contains(rs.rows, reason) {
		return nil
	}
	if len(rs.rows) == 0 {
		return fmt.Errorf("unknown reason %q; there is none whose severity can be set", reason)
	}
	name := nameOf(reason)
	switch {
	case name == "unreadable":
		return fmt.Errorf("%q follows the worst reason that is read from that file: overrule that one", reason)
	case slices.Contains(rs.own, name):
		return fmt.Errorf("%q is found by the daemon itself and cannot be overruled", reason)
	case slices.Contains(rs.rows, name):
		return fmt.Errorf("%q cannot be overruled alone, only %s with all its values%s", reason, name, rs.alone(name))
	}
	var names []string
	for _, r := range rs.rows {
		names = append(names, nameOf(r))
	}
	slices.Sort(names)
	allowed := strings.Join(slices.Compact(names), ", ")
	if near := rs.near(reason); len(near) > 0 {
		return fmt.Errorf("unknown reason %q; nearest: %s", reason, strings.Join(near, ", "))
	}
	return fmt.Errorf("unknown reason %q; allowed, some with a value: %s", reason, allowed)
}

// alone lists those of one name that may be overruled alone, for an error.
func (rs reasons) alone(name string) string {
	var some []string
	for _, r := range rs.rows {
		if strings.HasPrefix(r, name+"=") {
			some = append(some, r)
		}
	}
	if len(some) == 0 {
		return ""
	}
	return ", or one of " + strings.Join(some, ", ")
}

// near returns up to three reasons that somebody may have meant, the nearest
// first.
func (rs reasons) near(word string) []string {
	const longest = 64 // bytes: whoever wrote more meant none of them
	if len(word) > longest {
		return nil
	}
	type candidate struct {
		reason   string
		distance int
	}
	var candidates []candidate
	for _, r := range rs.rows {
		if d := distance(word, r); d <= len(word)/3 {
			candidates = append(candidates, candidate{r, d})
		}
	}
	slices.SortStableFunc(candidates, func(a, b candidate) int { return a.distance - b.distance })
	var near []string
	for _, c := range candidates[:min(3, len(candidates))] {
		near = append(near, c.reason)
	}
	return near
}

// distance is the least number of bytes to insert, delete or replace that makes b
// of a (Levenshtein).
func distance(a, b string) int {
	row := make([]int, len(b)+1) // from a[:i] to every b[:j]
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			replace := diagonal
			if a[i] != b[j] {
				replace++
			}
			diagonal = row[j+1]
			row[j+1] = min(replace, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
