package prometheus_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/prometheus/promql/parser"
)

// use is a metric in an expression, with the labels that the expression needs it to have.
type use struct {
	metric string
	labels []string
}

// uses returns the metrics in an expression. Each metric needs the labels that a surrounding expression groups by or
// matches on. It is an error if an inner expression removes such a label by grouping.
func uses(expr string) ([]use, error) {
	tree, err := parser.NewParser(parser.Options{}).ParseExpr(expr)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", expr, err)
	}
	var all []use
	var lost []string
	var walk func(node parser.Node, needed []string)
	walk = func(node parser.Node, needed []string) {
		switch node := node.(type) {
		case *parser.VectorSelector:
			u := use{labels: slices.Clone(needed)}
			for _, m := range node.LabelMatchers {
				if m.Name == "__name__" {
					u.metric = m.Value
				} else {
					u.labels = append(u.labels, m.Name)
				}
			}
			slices.Sort(u.labels)
			u.labels = slices.Compact(u.labels)
			all = append(all, u)
			return
		case *parser.AggregateExpr:
			if node.Op == parser.TOPK || node.Op == parser.BOTTOMK || node.Without {
				needed = append(slices.Clone(needed), node.Grouping...) // these keep all labels
				break
			}
			for _, label := range needed {
				if !slices.Contains(node.Grouping, label) {
					lost = append(lost, label)
				}
			}
			needed = slices.Clone(node.Grouping) // the result doesn't have any other labels
		case *parser.BinaryExpr:
			if m := node.VectorMatching; m != nil && m.On {
				on := append(slices.Clone(needed), m.MatchingLabels...)
				many, one := node.LHS, node.RHS
				if m.Card == parser.CardOneToMany {
					many, one = one, many
				}
				walk(many, slices.DeleteFunc(slices.Clone(on), func(l string) bool { return slices.Contains(m.Include, l) }))
				walk(one, append(slices.Clone(m.MatchingLabels), m.Include...))
				return
			}
		}
		for child := range parser.ChildrenIter(node) {
			walk(child, needed)
		}
	}
	walk(tree, nil)
	if len(lost) > 0 {
		return nil, fmt.Errorf("%s: labels removed by an inner grouping: found %v, want none", expr, lost)
	}
	return all, nil
}

func TestUses(t *testing.T) {
	for _, tt := range []struct {
		name, expr string
		want       []use
	}{
		{"plain", `up{job="x", node=~".*"} == 0`, []use{{"up", []string{"job", "node"}}}},
		{"grouped", `max by (node) (rate(a_total{x="1"}[5m]))`, []use{{"a_total", []string{"node", "x"}}}},
		{"nested", `sum by (a) (max by (a, b) (m))`, []use{{"m", []string{"a", "b"}}}},
		{"both", `sum by (a) (m or n)`, []use{{"m", []string{"a"}}, {"n", []string{"a"}}}},
		{"matched", `m * on (a) group_left (b) n{c="1"}`, []use{{"m", []string{"a"}}, {"n", []string{"a", "b", "c"}}}},
		{"chosen", `topk by (a) (1, max by (a, b) (m))`, []use{{"m", []string{"a", "b"}}}},
		{"grouped around", `max by (a) (m unless on (b) n)`, []use{{"m", []string{"a", "b"}}, {"n", []string{"b"}}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := uses(tt.expr)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got, cmp.AllowUnexported(use{})); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestUsesErrors(t *testing.T) {
	for _, expr := range []string{`sum by (a) (max by (b) (m))`, `sum by (a (m)`, `rate(m)`} {
		if got, err := uses(expr); err == nil {
			t.Errorf("%s: got %v, want an error", expr, got)
		}
	}
}
