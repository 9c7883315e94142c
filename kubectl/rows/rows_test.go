package rows_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"b-com.com/accelerator-device-plugin/kubectl/fleet"
	"b-com.com/accelerator-device-plugin/kubectl/rows"
	"b-com.com/accelerator-device-plugin/test/compare"
	"b-com.com/accelerator-device-plugin/test/must"
)

// answer returns the answer of a node with the text of its daemon.
func answer(t testing.TB, node, pod, text string) fleet.Answer {
	t.Helper()
	state := must.Value(fleet.Parse([]byte(text)))(t)
	return fleet.Answer{Target: fleet.Target{Node: node, Namespace: "kube-system", Pod: pod}, State: state}
}

func broken(node, why string) fleet.Answer {
	return fleet.Answer{Target: fleet.Target{Node: node, Namespace: "kube-system", Pod: "fpga-x"}, Err: errors.New(why)}
}

const worker = `{"version":"v0.3.0","api":"devicePlugin","devices":[
	{"id":"3b:00.0","health":"healthy","holder":["default/job/main"],"holderKnown":true,"held":true,"resource":"b-com.com/accelerator","reasons":[],"deviceNodes":["/dev/dfl-port.0"],"numaNode":1,"cordon":null},
	{"id":"3b:00.0-p1","health":"unhealthy","holder":[],"holderKnown":true,"held":true,"resource":"b-com.com/accelerator","reasons":["port-ap6","cordoned"],"node":"spoofed","error":"spoofed","cordon":{"by":"jane","why":"fan"}},
	{"id":"5e:00.0","health":"degraded","holder":[],"holderKnown":false,"held":null,"resource":"","reasons":["power-throttled=1"]}],
	"cordons":[{"device":"3b:00.0","by":"jane","why":"fan"},{"device":"5e:00.0-p0","by":"jane","why":"fan"},{"device":"60:00.0","by":"olga","why":"pulled"}],
	"cards":[
	{"card":"3b:00.0","healthChanges":40,"failures":20,"removals":1,"lastRemoved":"2026-11-19T00:00:00Z","recent":[
		{"time":"2026-11-20T00:00:00Z","device":"3b:00.0","from":"healthy","to":"unhealthy","reason":"port-ap6","ofCard":true},
		{"time":"2026-11-20T00:00:01Z","device":"3b:00.0-p1","from":"healthy","to":"unhealthy","reason":"port-ap6"},
		{"time":"2026-11-20T00:01:00Z","device":"3b:00.0","from":"unhealthy","to":"healthy"},
		{"time":"2026-11-20T00:01:00Z","device":"3b:00.0-p1","from":"unhealthy","to":"healthy","ofCard":true},
		{"time":"2026-11-20T00:02:00Z","device":"3b:00.0","from":"healthy","to":"degraded","reason":"power-throttled=1","ofCard":true}]},
	{"card":"5e:00.0","healthChanges":2,"failures":2,"removals":0,"recent":[
		{"time":"2026-10-20T00:00:00Z","device":"5e:00.0","from":"healthy","to":"unhealthy","reason":"port-ap6","ofCard":true},
		{"time":"2026-11-21T00:00:00Z","device":"5e:00.0","from":"healthy","to":"unhealthy","reason":"port-ap1","ofCard":true}]},
	{"card":"60:00.0","healthChanges":1,"failures":1,"removals":0,"recent":[{"time":"2026-10-20T00:00:00Z","device":"60:00.0","from":"healthy","to":"unhealthy","reason":"port-ap6","ofCard":true}]},
	{"card":"61:00.0","healthChanges":0,"failures":0,"removals":2,"lastRemoved":"2026-11-19T12:00:00Z","recent":null},
	{"card":"62:00.0","healthChanges":0,"failures":0,"removals":2,"lastRemoved":"2026-10-19T12:00:00Z","recent":null},
	{"card":"63:00.0","healthChanges":0,"failures":0,"removals":1,"recent":null}]}`

func printed(t *testing.T, all []rows.Row, columns []rows.Column, colour bool) string {
	t.Helper()
	var b strings.Builder
	must.Succeed(t, rows.Print(&b, all, columns, colour))
	return b.String()
}

func TestDevices(t *testing.T) {
	answers := []fleet.Answer{answer(t, "worker-1", "fpga-1", worker), broken("worker-2", "no answer\x1b[31m within 10s")}
	for _, test := range []struct {
		name      string
		unhealthy bool
		columns   []rows.Column
		want      string
	}{
		{"all", false, rows.DeviceColumns, `
NODE      ID          HEALTH     HOLDER            RESOURCE               REASONS
worker-1  3b:00.0     healthy    default/job/main  b-com.com/accelerator  -
worker-1  3b:00.0-p1  unhealthy  not named yet     b-com.com/accelerator  port-ap6,cordoned
worker-1  5e:00.0     degraded   ?                 -                      power-throttled=1
worker-1  60:00.0     absent     -                 -                      cordoned by olga
worker-2  -           unknown    -                 -                      no answer\x1b[31m within 10s
`},
		{"unhealthy", true, rows.DeviceColumns, `
NODE      ID          HEALTH     HOLDER         RESOURCE               REASONS
worker-1  3b:00.0-p1  unhealthy  not named yet  b-com.com/accelerator  port-ap6,cordoned
worker-1  5e:00.0     degraded   ?              -                      power-throttled=1
worker-1  60:00.0     absent     -              -                      cordoned by olga
worker-2  -           unknown    -              -                      no answer\x1b[31m within 10s
`},
		{"wide", true, rows.WideDevices, `
NODE      ID          HEALTH     HOLDER         RESOURCE               NODES  FAMILY  PCI-ID  NUMA  AFU  CORDON        API           VERSION  POD                 REASONS
worker-1  3b:00.0-p1  unhealthy  not named yet  b-com.com/accelerator  -      -       -       -     -    jane: fan     devicePlugin  v0.3.0   kube-system/fpga-1  port-ap6,cordoned
worker-1  5e:00.0     degraded   ?              -                      -      -       -       -     -    -             devicePlugin  v0.3.0   kube-system/fpga-1  power-throttled=1
worker-1  60:00.0     absent     -              -                      -      -       -       -     -    olga: pulled  devicePlugin  v0.3.0   kube-system/fpga-1  cordoned by olga
worker-2  -           unknown    -              -                      -      -       -       -     -    -             -             -        kube-system/fpga-x  no answer\x1b[31m within 10s
`},
	} {
		compare.Values(t, test.name, test.want, "\n"+printed(t, rows.Devices(answers, nil, test.unhealthy), test.columns, false))
	}
	colours := printed(t, rows.Devices(answers, nil, false), rows.DeviceColumns, true)
	for _, want := range []string{"\x1b[32mhealthy\x1b[0m", "\x1b[31munhealthy\x1b[0m", "\x1b[33mdegraded\x1b[0m", "\x1b[31munknown\x1b[0m"} {
		compare.Contains(t, "colours", want, colours)
	}
}

func TestFlaps(t *testing.T) {
	defer func(l *time.Location) { time.Local = l }(time.Local)
	time.Local = time.UTC
	answers := []fleet.Answer{
		answer(t, "worker-0", "fpga-0", `{"version":"v1","devices":[],"cards":[
			{"card":"3b:00.0","healthChanges":6,"removals":0,"recent":[
				{"time":"2026-11-22T00:00:00Z","to":"unhealthy","reason":"port-ap6"},{"time":"2026-11-22T00:00:00Z","to":"unhealthy","reason":"port-ap6"},
				{"time":"2026-11-22T00:01:00Z","to":"healthy"},{"time":"2026-11-22T00:02:00Z","to":"unhealthy","reason":"port-ap6"}]},
			{"card":"5e:00.0","healthChanges":0,"removals":3,"recent":[]}]}`), // it is older, and counts no failures
		answer(t, "worker-1", "fpga-1", worker), broken("worker-2", "no answer within 10s"),
	}
	since := time.Date(2026, 11, 15, 0, 0, 0, 0, time.UTC)
	want := `
NODE      CARD     FAILURES  TOTAL  REMOVALS  LAST              HEALTH     REASONS
worker-0  3b:00.0  2+        -      0         2026-11-22 00:02  absent     port-ap6
worker-1  3b:00.0  1+        20     1         2026-11-20 00:02  unhealthy  port-ap6,power-throttled=1
worker-1  5e:00.0  1         2      0         2026-11-21 00:00  degraded   port-ap1
worker-0  5e:00.0  0         -      3         -                 absent     -
worker-1  61:00.0  0         0      2         2026-11-19 12:00  absent     -
worker-1  63:00.0  0         0      1         -                 absent     -
worker-2  -        -         -      -         -                 unknown    no answer within 10s
`
	compare.Values(t, fmt.Sprintf("since %s", since), want, "\n"+printed(t, rows.Flaps(answers, since), rows.FlapColumns, false))
}

func TestNotes(t *testing.T) {
	var answers []fleet.Answer
	for _, node := range []string{"g", "f", "e", "d", "c", "b", "a"} {
		answers = append(answers, answer(t, node, "fpga-"+node, `{"version":"0.2.0","incomplete":true}`))
	}
	answers = append(answers, answer(t, "a", "other", `{"version":"0.3.0-dev+456.dirty","holdersError":"no kubelet"}`), answer(t, "x", "fpga", `{"version":"devel"}`), broken("y", "hangs"))
	want := []string{
		"a: several releases list the devices of a node, each its own: kube-system/fpga-a, kube-system/other",
		"a: the holders of devices are not known: no kubelet",
		"a, b, c, d, e and 2 more: not all cards have been read yet",
		"a, b, c, d, e and 2 more: version 0.2.0 is older than this command, 0.3.0",
	}
	got := rows.Notes(answers, "0.3.0")
	compare.Values(t, "notes", want, got, cmp.Transformer("sorted", func(all []string) map[string]bool {
		set := map[string]bool{}
		for _, s := range all {
			set[s] = true
		}
		return set
	}))
	compare.Empty(t, "notes", rows.Notes(answers[8:], "(devel)"))
}

// Whatever a node answers, tables consist of printable characters.
func FuzzTables(f *testing.F) {
	f.Add([]byte(worker))
	f.Add([]byte(`{"version":"v1","devices":[{"id":"a","health":"b","holder":{"\u001b":[1,{}]},"holderKnown":true,"cordon":[]}],"cards":[{"card":"c","healthChanges":"x","removals":1e300,"recent":[1,{"time":5}]}]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		state, err := fleet.Parse(text)
		if err != nil {
			return
		}
		answers := []fleet.Answer{{State: state}}
		var b strings.Builder
		for _, table := range []struct {
			all     []rows.Row
			columns []rows.Column
		}{{rows.Devices(answers, nil, false), rows.WideDevices}, {rows.Flaps(answers, time.Time{}), rows.WideFlaps}} {
			must.Succeed(t, rows.Print(&b, table.all, table.columns, false))
		}
		for _, r := range b.String() {
			if r < ' ' && r != '\n' || r >= 0x7f && r < 0xa0 {
				t.Fatalf("%q: found %q in %q", text, r, b.String())
			}
		}
	})
}
