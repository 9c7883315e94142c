package keep_test

import (
	"fmt"
	"strings"
	"testing"

	"b-com.com/accelerator-device-plugin/registry/keep"
	"b-com.com/accelerator-device-plugin/test/compare"
)

func TestParseList(t *testing.T) {
	many := func(n int) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, "example.com/fpga/nlb:%d\n", i)
		}
		return b.String()
	}
	const want = "want REGISTRY/NAME, REGISTRY/NAME:TAG or REGISTRY/NAME@sha256:DIGEST in lower case"
	for _, test := range []struct {
		text  string
		count int
		err   string
	}{
		{text: nlb, count: 1},
		{text: "# one\n\n  " + nlb + "\r\n" + pinned + "\n", count: 2},
		{text: many(100), count: 100},
		{text: many(101), err: "line 101: found more than 100 references, want at most 100"},
		{text: "", err: "found no reference, want 1 to 100"},
		{text: "#\n", err: "found no reference, want 1 to 100"},
		{text: "# one\n" + nlb + "\nnlb", err: `line 3: found "nlb", ` + want},
		{text: nlb + " " + vadd, err: `line 1: found "` + nlb + " " + vadd + `", ` + want},
		{text: "- " + nlb, err: `line 1: found "- ` + nlb + `", ` + want},
		{text: "example.com/a\nexample.com/a:latest", err: "line 2: found example.com/a:latest, as in line 1, want each reference once"},
		{text: "example.com/" + strings.Repeat("a", 600), err: "line 1: found 612 characters, want at most 512"},
	} {
		n, err := keep.ParseList(test.text)
		compare.Outcome(t, fmt.Sprintf("%.60q", test.text), test.err, err)
		compare.Equal(t, fmt.Sprintf("%.60q: references", test.text), test.count, n)
	}
}

func FuzzParseList(f *testing.F) {
	f.Add("# list\n" + nlb + "\n" + pinned)
	f.Fuzz(func(t *testing.T, text string) {
		if n, err := keep.ParseList(text); (n == 0) != (err != nil) || n > 100 {
			t.Errorf("found %d references and error %v", n, err)
		}
	})
}
