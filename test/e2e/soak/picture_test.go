package soak_test

import (
	"bytes"
	"encoding/xml"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"b-com.com/accelerator-device-plugin/test/e2e/soak"
)

// drawn parses a page, and returns the class of each of its bars and violations, and what hovering over it shows. It
// ends the test if the page isn't well-formed.
func drawn(t *testing.T, page []byte) (shown []string) {
	t.Helper()
	d := xml.NewDecoder(bytes.NewReader(page))
	class, in := "", ""
	for {
		token, err := d.Token()
		if err == io.EOF {
			return shown
		}
		if err != nil {
			t.Fatal(err)
		}
		switch token := token.(type) {
		case xml.StartElement:
			in = token.Name.Local
			for _, a := range token.Attr {
				if a.Name.Local == "class" && (in == "rect" || in == "g") {
					class = a.Value
				}
			}
		case xml.EndElement:
			in = ""
			if token.Name.Local == "rect" {
				class = ""
			}
		case xml.CharData:
			if in == "title" && class != "" {
				shown = append(shown, class+": "+strings.TrimSpace(string(token)))
			}
		}
	}
}

func TestPicture(t *testing.T) {
	lines, wrong := checked(history(t, `
		0 port a 120:0
		0 port b 120:1
		0.1 offers r=a
		1 runs p r=1
		1.1 on p 120:0
		2 fault 1 kill kubelet
		2.1 fault 2 stop kubelet
		2.2 unread
		3 done 1
		4 done 2 no <answer>
		5 offers r=a s=a
		5.1 offers s=a
		6 port b 120:1 broken
		7 port b -
		8 runs q s=1
		8.1 on q 120:0
		9 off p
		9.1 pod p Gone
		11 pod s Pending r=1
		40 quiet left=socket`))
	if len(wrong) != 3 {
		t.Fatalf("violations: %v", wrong)
	}
	var page bytes.Buffer
	if err := soak.Picture(&page, append([]soak.Line{{Run: &soak.Run{Seed: 7, Version: "1.0", Began: "now"}}}, lines...)); err != nil {
		t.Fatal(err)
	}
	want := `
fit: 0.000 s  port a is fit, as 120:0
fit: 0.000 s  port b is fit, as 120:1, until 6.000 s
offered: 0.100 s  port a is offered as r, until 5.000 s
unoffered: 0.100 s  port b is not offered
pending: 1.000 s  pod p, which wants 1 of r, is Pending, until 1.000 s
running: 1.000 s  pod p, which wants 1 of r, is Running, until 9.100 s
holder: 1.080 s  process 1001 of pod p has 120:0, until 9.000 s
fault kill: 2.000 s  operation: kill kubelet, until 3.000 s
fault stop: 2.100 s  operation: stop kubelet, which failed: no <answer>, until 4.000 s
fault: 2.200 s  offers cannot be read: no answer, until 5.000 s
broken: 5.000 s  port a is offered as r and s, until 5.100 s
offered: 5.100 s  port a is offered as s
broken: 6.000 s  port b is broken (fme-fatal), as 120:1, until 7.000 s
pulled: 7.000 s  port b is pulled
pending: 8.000 s  pod q, which wants 1 of s, is Pending, until 8.000 s
running: 8.000 s  pod q, which wants 1 of s, is Running
holder: 8.080 s  process 1002 of pod q has 120:0
pending: 11.000 s  pod s, which wants 1 of r, is Pending
broken: 10.000 s  not agreed: socket, until 40.000 s
wrong: a is offered as s, and pod p has it as 1 of r
wrong: pod p has 120:0 of a (its container began at 1.08 s), and so has pod q (8.08 s)
wrong: left over: socket`
	if diff := cmp.Diff(strings.TrimSpace(want), strings.Join(drawn(t, page.Bytes()), "\n")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for _, text := range []string{"<h1>3 violations in 0:40</h1>", "seed 7, version 1.0", `<a href="#wrong1">9.00 s</a> shared: pod p has`, `id="wrong1"`,
		"1.000 s  pod p, which wants 1 of r, is Running", ">kubelet<", ">not agreed<"} {
		if !strings.Contains(page.String(), text) {
			t.Errorf("not in the page: %s", text)
		}
	}
	if n := strings.Count(page.String(), `height="33"`); n != 3 {
		t.Errorf("%d lanes with two rows, want those of the kubelet, of port b and of the pods", n)
	}
	if err := soak.Picture(&page, nil); err != nil {
		t.Error(err)
	}
}
