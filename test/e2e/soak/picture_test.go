package soak_test

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"b-com.com/accelerator-device-plugin/test/e2e/soak"
)

// drawn parses a page, and returns its bars and its violations: class, and what is shown by hovering. It ends the test if the page
// is not well-formed.
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
				shown = append(shown, class+": "+strings.ReplaceAll(string(token), "\n", " | "))
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
		40 quiet`))
	if len(wrong) != 2 {
		t.Fatalf("violations: %v", wrong)
	}
	var page bytes.Buffer
	if err := soak.Picture(&page, append([]soak.Line{{Run: &soak.Run{Seed: 7, Version: "1.0", Began: "now"}}}, lines...)); err != nil {
		t.Fatal(err)
	}
	want := `
read: offers can be read | 0.00 to 2.20 s
fault kill: kill | 2.00 to 3.00 s
fault stop: stop, failed: no <answer> | 2.10 to 4.00 s
fault: offers cannot be read: no answer | 2.20 to 5.00 s
read: offers can be read | 5.00 to 40.00 s
agreed: all agreed | 10.00 to 40.00 s
fit: fit, 120:0 | 0.00 to 40.00 s
fit: fit, 120:1 | 0.00 to 6.00 s
name0: offered as r | 0.10 to 5.00 s
holder: pod p has 120:0, process 1001 | 1.08 to 9.00 s
broken: offered as r and s | 5.00 to 5.10 s
name1: offered as s | 5.10 to 40.00 s
broken: broken (fme-fatal), 120:1 | 6.00 to 7.00 s
pulled: pulled | 7.00 to 40.00 s
holder: pod q has 120:0, process 1002 | 8.08 to 40.00 s
pending: pod p: Pending | wants 1 of r | 1.00 to 1.00 s
running: pod p: Running | wants 1 of r | 1.00 to 9.10 s
pending: pod q: Pending | wants 1 of s | 8.00 to 8.00 s
running: pod q: Running | wants 1 of s | 8.00 to 40.00 s
pending: pod s: Pending | wants 1 of r | 11.00 to 40.00 s
wrong: a is offered as s, and pod p has it as 1 of r
wrong: pod p has 120:0 of a (its container began at 1.08 s), and so has pod q (8.08 s)`
	if diff := cmp.Diff(strings.TrimSpace(want), strings.Join(drawn(t, page.Bytes()), "\n")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for _, text := range []string{"<h1>2 violations in 0:40</h1>", "seed 7, version 1.0", `<a href="#wrong1">9.00 s</a> shared: pod p has`, `id="wrong1"`,
		"1.000 s  pod p is created", ">kubelet<"} {
		if !strings.Contains(page.String(), text) {
			t.Errorf("not in the page: %s", text)
		}
	}
	if n := strings.Count(page.String(), `height="34"`); n != 2 {
		t.Errorf("%d lanes with two rows, want those of the kubelet and of the pods", n)
	}
	if err := soak.Picture(&page, nil); err != nil {
		t.Error(err)
	}
}

// long is a history of two hours, as busy as a soak may be.
func long() (lines []soak.Line) {
	add := func(at float64, line soak.Line) { line.At = at; lines = append(lines, line) }
	const ports = 8
	port := func(i int) soak.Port {
		return soak.Port{ID: fmt.Sprintf("%02d:00.0", i), Node: fmt.Sprintf("120:%d", i)}
	}
	offers := func(without int) *soak.Offers {
		o := &soak.Offers{Ports: map[string][]string{}}
		for i := range ports {
			if i != without {
				o.Ports["e2e.b-com.com/soak"] = append(o.Ports["e2e.b-com.com/soak"], port(i).ID)
			}
		}
		return o
	}
	for i := range ports {
		p := port(i)
		add(0, soak.Line{Port: &p})
	}
	for n := range 3600 {
		at, i := float64(2*n), n%ports
		p, k := port(i), soak.Container{PID: n, Pod: fmt.Sprintf("pod-%04d", n), UID: fmt.Sprintf("00000000-0000-0000-0000-%012d", n), Started: at + 0.4}
		p.Since, k.Nodes, k.Rules = at, []string{p.Node}, []string{p.Node}
		pod := soak.Pod{Name: k.Pod, UID: k.UID, Wants: map[string]int{"e2e.b-com.com/soak": 1}, Phase: "Pending"}
		for step, phase := range []string{"Pending", "Pending", "Running"} {
			pod.Phase, pod.Scheduled = phase, step > 0
			add(at+0.1*float64(step), soak.Line{Pod: &pod})
		}
		add(at+0.41, soak.Line{Container: &k})
		ended := k
		ended.Ended, ended.Seen = true, at+0.8
		add(at+0.85, soak.Line{Container: &ended})
		for _, phase := range []string{"Succeeded", "Gone"} {
			gone := pod
			gone.Phase = phase
			add(at+0.9, soak.Line{Pod: &gone})
		}
		if n%2 == 0 {
			broken := p
			broken.Broken = "port-ap6"
			add(at+0.91, soak.Line{Port: &broken})
			add(at+0.92, soak.Line{Offers: offers(i)})
			add(at+0.93, soak.Line{Port: &p})
			add(at+0.94, soak.Line{Offers: offers(-1)})
		}
		if n%12 == 0 {
			add(at+0.95, soak.Line{Op: &soak.Op{N: n, Kind: "kill", Target: "kubelet", Disturbs: true}})
			add(at+0.96, soak.Line{Done: &soak.Done{N: n}})
		}
	}
	return lines
}

// A history of two hours is checked in a time that is no load for the machine, and its picture can be sent around.
func TestLong(t *testing.T) {
	lines, wrong := checked(long())
	if len(wrong) > 0 {
		t.Errorf("violations: %v", wrong)
	}
	var page bytes.Buffer
	if err := soak.Picture(&page, lines); err != nil {
		t.Fatal(err)
	}
	if bars := len(drawn(t, page.Bytes())); page.Len() > 10_000_000 || bars < 15000 {
		t.Errorf("%d bytes with %d bars, want at most 10 MB with most of them", page.Len(), bars)
	}
	t.Logf("%d lines, %d bytes", len(lines), page.Len())
}
