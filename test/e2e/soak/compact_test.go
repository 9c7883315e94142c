package soak_test

import (
	"strconv"
	"strings"
	"testing"

	"b-com.com/accelerator-device-plugin/test/e2e/soak"
)

// history reads a history in a compact form. Each line starts with its time:
//
//	port ID NUMBER|- [FIELD...]        FIELD: broken, cordoned, excluded, unsure, since=T (otherwise 0.1 s ago)
//	offers NAME=ID,ID... [seen=T]      the last sample before it (otherwise 0.1 s ago)
//	unread [NAME=ID,ID...]             only the slices cannot be read, if it has offers
//	pod NAME PHASE [FIELD...]          FIELD: NAME=N that it wants, scheduled, deleting, mayFail
//	runs NAME NAME=N                   the pod is created, scheduled and running
//	on NAME NUMBER[,NUMBER] [FIELD]    a container runs: since=T (otherwise 0.02 s ago), rules: not in its /dev; NAME may be POD/CONTAINER
//	off NAME [seen=T]                  it has ended (seen 0.05 s ago)
//	op N KIND [TARGET], fault N KIND [TARGET], done N [ERROR]
//	quiet [WORD=VALUE...]              differ=, left=, waiting=, memory=PART:MIB, files=PART:N
func history(t testing.TB, text string) (lines []soak.Line) {
	t.Helper()
	on := map[string]soak.Container{}
	pid := 1000
	offered := 0.0 // time of the previous line with offers
	for _, row := range strings.Split(strings.TrimSpace(text), "\n") {
		words := strings.Fields(row)
		if len(words) == 0 {
			continue
		}
		at, verb := number(t, words[0]), words[1]
		args, fields := words[2:], map[string]string{}
		for _, word := range args {
			name, value, _ := strings.Cut(word, "=")
			fields[name] = value
		}
		since := func(ago float64) float64 {
			if fields["since"] != "" {
				return number(t, fields["since"])
			}
			return max(0, at-ago)
		}
		has := func(field string) bool { _, ok := fields[field]; return ok }
		add := func(line soak.Line) { line.At = at; lines = append(lines, line) }
		switch verb {
		case "port":
			p := &soak.Port{ID: args[0], Node: strings.TrimPrefix(args[1], "-"), Since: since(0.1), Cordoned: has("cordoned"), Excluded: has("excluded"), Unsure: has("unsure")}
			if has("broken") {
				p.Broken = "fme-fatal"
			}
			add(soak.Line{Port: p})
		case "offers", "unread":
			o := &soak.Offers{Ports: map[string][]string{}, Seen: max(offered, at-0.1)}
			if has("seen") {
				o.Seen = number(t, fields["seen"])
				delete(fields, "seen")
			}
			for name, ids := range fields {
				o.Ports[name] = strings.Split(ids, ",")
			}
			if ids, ok := o.Ports["recorded"]; ok {
				o.Recorded = ids
				delete(o.Ports, "recorded")
			}
			if verb == "unread" {
				o.Unread = "no answer"
			}
			if verb == "unread" && len(args) == 0 {
				o.Ports, o.Seen = nil, 0
			} else {
				offered = at
			}
			add(soak.Line{Offers: o})
		case "pod", "runs":
			p := soak.Pod{Name: args[0], UID: "uid-" + args[0], Scheduled: has("scheduled"), Deleting: has("deleting"), MayFail: has("mayFail")}
			for name, n := range fields {
				if n != "" {
					p.Wants = map[string]int{name: int(number(t, n))}
				}
			}
			if verb == "pod" {
				p.Phase = args[1]
				add(soak.Line{Pod: &p})
				break
			}
			created, running := p, p
			created.Phase, running.Phase, running.Scheduled = "Pending", "Running", true
			add(soak.Line{Pod: &created})
			add(soak.Line{Pod: &running})
		case "on":
			pod, _, _ := strings.Cut(args[0], "/")
			pid++
			k := soak.Container{PID: pid, Pod: pod, UID: "uid-" + pod, Started: since(0.02), Rules: strings.Split(args[1], ",")}
			if !has("rules") {
				k.Nodes = k.Rules
			}
			on[args[0]] = k
			add(soak.Line{Container: &k})
		case "off":
			k, ok := on[args[0]]
			if !ok {
				t.Fatalf("%q: no such container", row)
			}
			delete(on, args[0])
			k.Ended, k.Seen = true, at-0.05
			if has("seen") {
				k.Seen = number(t, fields["seen"])
			}
			add(soak.Line{Container: &k})
		case "op", "fault":
			o := &soak.Op{N: int(number(t, args[0])), Kind: args[1], Disturbs: verb == "fault"}
			if len(args) > 2 {
				o.Target = args[2]
			}
			add(soak.Line{Op: o})
		case "done":
			add(soak.Line{Done: &soak.Done{N: int(number(t, args[0])), Error: strings.Join(args[1:], " ")}})
		case "quiet":
			q := &soak.Quiet{Since: at - 30, Agreed: !has("differ"), Memory: map[string]float64{}, Files: map[string]int{}}
			list := func(field string) []string {
				return strings.FieldsFunc(fields[field], func(r rune) bool { return r == ',' })
			}
			q.Differ, q.Left, q.Waiting = list("differ"), list("left"), list("waiting")
			for _, of := range list("memory") {
				part, n, _ := strings.Cut(of, ":")
				q.Memory[part] = number(t, n)
			}
			for _, of := range list("files") {
				part, n, _ := strings.Cut(of, ":")
				q.Files[part] = int(number(t, n))
			}
			add(soak.Line{Quiet: q})
		default:
			t.Fatalf("%q: unknown word %s", row, verb)
		}
	}
	return lines
}

func number(t testing.TB, text string) float64 {
	t.Helper()
	n, err := strconv.ParseFloat(text, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}
