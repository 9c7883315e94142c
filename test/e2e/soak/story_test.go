package soak_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"b-com.com/accelerator-device-plugin/test/e2e/soak"
)

// checked returns a history with its violations added, and the violations.
func checked(lines []soak.Line) (all []soak.Line, wrong []soak.Wrong) {
	c := soak.NewChecker(limits)
	for _, line := range lines {
		all = append(all, line)
		for _, w := range c.Add(line) {
			all = append(all, soak.Line{At: line.At, Wrong: &w})
			wrong = append(wrong, w)
		}
	}
	return all, wrong
}

func TestExcerpt(t *testing.T) {
	for _, tt := range []struct{ name, history, want string }{
		{"two pods with one port", `
			1 runs early r=1
			1.1 on early 120:0
			2.5 fault 1 stop etcd
			2.9 done 1
			3 fault 2 kill kubelet
			3.1 port b 120:1 broken
			3.2 pod early Succeeded
			3.3 off early
			4 runs p r=1
			4.1 on p 120:0
			4.2 runs other r=1
			4.3 on other 120:1
			5 done 2
			6 unread
			7 offers r=a,c,c-p1
			7.1 fault 3 kill daemon
			7.2 done 3 no answer
			8 pod q Pending r=1
			8 pod q Pending r=1
			8.05 pod q Pending r=1
			8.1 pod q Pending r=1 scheduled
			8.2 on q 120:0
			8.9 port a -
			9 off other
			20 op 4 delete p`, `
    3.000 s  operation: kill kubelet, until 5.000 s
    4.000 s  pod p, which wants 1 of r, is Pending, until 4.000 s
    4.000 s  pod p, which wants 1 of r, is Running
    4.080 s  process 1002 of pod p has 120:0
    6.000 s  offers cannot be read: no answer, until 7.000 s
    7.100 s  operation: kill daemon, which failed: no answer, until 7.200 s
    8.000 s  pod q, which wants 1 of r, is Pending, until 8.100 s
    8.100 s  pod q, which wants 1 of r, is Pending, scheduled
    8.180 s  process 1004 of pod q has 120:0
    8.900 s  port a is pulled
    9.000 s  WRONG (shared): pod p has 120:0 of a (its container began at 4.08 s), and so has pod q (8.18 s)`},
		{"a port of a pod under another name", `
			0 port a -
			0 port pci-0000-01-00-0-p1 120:0
			0.1 offers r=b,c,c-p1,pci-0000-01-00-0-p1
			1 runs p r=1
			1.1 on p 120:0 rules
			2 port pci-0000-01-00-0-p1 120:0 broken
			2.1 port pci-0000-01-00-0 120:9
			2.3 offers r=b,c,c-p1
			3 op 1 heal 0000:01:00.0
			3.1 port pci-0000-01-00-0-p1 120:0
			3.2 done 1
			3.5 pod p Running r=1 deleting
			4 fault 2 upgrade
			5 offers s=pci-0000-01-00-0-p1 r=b,c,c-p1
			9 op 3 delete q`, `
    1.000 s  pod p, which wants 1 of r, is Pending, until 1.000 s
    1.000 s  pod p, which wants 1 of r, is Running, until 3.500 s
    1.080 s  process 1001 of pod p may open 120:0
    2.000 s  port pci-0000-01-00-0-p1 is broken (fme-fatal), as 120:0, until 3.100 s
    2.300 s  port pci-0000-01-00-0-p1 is not offered, until 5.000 s
    3.100 s  port pci-0000-01-00-0-p1 is fit, as 120:0
    3.500 s  pod p, which wants 1 of r, is Running, being deleted
    4.000 s  operation: upgrade
    5.000 s  port pci-0000-01-00-0-p1 is offered as s
    9.000 s  WRONG (renamed): pci-0000-01-00-0-p1 is offered as s, and pod p has it as 1 of r`},
		{"a quiet time", `
			1 fault 1 kill driver
			2 done 1
			9 quiet
			12 op 2 plug 0000:d
			13 done 2
			14 fault 3 kill daemon
			15 done 3
			15.5 port b -
			16 port a -
			17 offers r=b,c,c-p1
			40 quiet differ=a`, `
   14.000 s  operation: kill daemon, until 15.000 s
   16.000 s  port a is pulled
   17.000 s  port a is not offered
   40.000 s  WRONG (quiet): what does not agree: a`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			lines, wrong := checked(history(t, node+tt.history))
			if len(wrong) != 1 {
				t.Fatalf("violations: %v", wrong)
			}
			if diff := cmp.Diff(strings.Trim(tt.want, "\n"), strings.Join(soak.Excerpt(lines, wrong[0]), "\n")); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// A long excerpt is shortened in the middle.
func TestLongExcerpt(t *testing.T) {
	text := node + "1 runs p r=1\n1.1 on p 120:0\n"
	for i := range 100 {
		text += fmt.Sprintf("%d fault %d kill kubelet\n%d.5 done %d\n", i+2, i, i+2, i)
	}
	lines, wrong := checked(history(t, text+"200 runs q r=1\n200.1 on q 120:0\n201 off q"))
	got := soak.Excerpt(lines, wrong[0])
	if len(got) != 40 || !strings.Contains(got[8], "68 lines are left out") || !strings.Contains(got[9], "operation") || !strings.Contains(got[39], "WRONG") {
		t.Errorf("%d lines:\n%s", len(got), strings.Join(got, "\n"))
	}
	if soak.Excerpt(nil, wrong[0]) != nil {
		t.Error("an excerpt of nothing")
	}
}
