package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"b-com.com/accelerator-device-plugin/kubectl/test/simcluster"
	"b-com.com/accelerator-device-plugin/test/compare"
	"b-com.com/accelerator-device-plugin/test/must"
)

const state = `{"version":"v0.3.0","api":"devicePlugin","devices":[
	{"id":"3b:00.0","health":"healthy","holder":["default/job/main"],"holderKnown":true,"resource":"b-com.com/accelerator","reasons":[],"numaNode":1},
	{"id":"3b:00.0-p1","health":"unhealthy","holder":[],"holderKnown":true,"resource":"b-com.com/accelerator","reasons":["port-ap6"],"numaNode":1}],
	"cards":[]}`

// twoNodes is a cluster of a node that answers, and one that does not.
func twoNodes(t *testing.T) *simcluster.Cluster {
	return simcluster.Start(t,
		simcluster.NewPod("worker-1", "kube-system", "fpga", "devicePlugin", simcluster.Prints(state)),
		simcluster.NewPod("worker-2", "kube-system", "fpga", "devicePlugin", func(_ context.Context, _ []string, _, stderr io.Writer) int {
			fmt.Fprintln(stderr, "accelerator-device-plugin: the daemon could not be asked")
			return 1
		}))
}

// Rows are printed in all formats, even if one of the nodes fails.
func TestFormats(t *testing.T) {
	c := twoNodes(t)
	const items = `[{"api":"devicePlugin","health":"healthy","holder":["default/job/main"],"holderKnown":true,"id":"3b:00.0","namespace":"kube-system","node":"worker-1","numaNode":1,"pod":"fpga-worker-1","reasons":[],"resource":"b-com.com/accelerator","version":"v0.3.0"},
		{"api":"devicePlugin","health":"unhealthy","holder":[],"holderKnown":true,"id":"3b:00.0-p1","namespace":"kube-system","node":"worker-1","numaNode":1,"pod":"fpga-worker-1","reasons":["port-ap6"],"resource":"b-com.com/accelerator","version":"v0.3.0"},
		{"api":"","error":"the daemon could not be asked","namespace":"kube-system","node":"worker-2","pod":"fpga-worker-2","version":""}]`
	same := func(got string) error {
		var want, is any
		if err := yaml.Unmarshal([]byte(got), &is); err != nil {
			return err
		}
		if err := json.Unmarshal([]byte(`{"apiVersion":"v1","kind":"List","items":`+items+`}`), &want); err != nil {
			return err
		}
		if diff := cmp.Diff(want, is); diff != "" {
			return fmt.Errorf("(-want +got):\n%s", diff)
		}
		return nil
	}
	exactly := func(want string) func(string) error {
		return func(got string) error {
			if diff := cmp.Diff(want, got); diff != "" {
				return fmt.Errorf("(-want +got):\n%s", diff)
			}
			return nil
		}
	}
	for format, check := range map[string]func(string) error{
		"json": same, "yaml": same,
		"": exactly(`NODE      ID          HEALTH     HOLDER            RESOURCE               REASONS
worker-1  3b:00.0     healthy    default/job/main  b-com.com/accelerator  -
worker-1  3b:00.0-p1  unhealthy  -                 b-com.com/accelerator  port-ap6
worker-2  -           unknown    -                 -                      the daemon could not be asked
`),
		`jsonpath={range .items[?(@.health!="healthy")]}{.node} {.id} {.reasons[*]}{"\n"}{end}`: exactly("worker-1 3b:00.0-p1 port-ap6\n"),
		`go-template={{range .items}}{{.node}} {{.error}};{{end}}`:                              exactly("worker-1 <no value>;worker-1 <no value>;worker-2 the daemon could not be asked;"),
		"custom-columns=NODE:.node,ID:id,NUMA:{.numaNode},HELD:.holder[0]": exactly(`NODE      ID          NUMA    HELD
worker-1  3b:00.0     1       default/job/main
worker-1  3b:00.0-p1  1       <none>
worker-2  <none>      <none>  <none>
`),
	} {
		out, errs, code := kubectl(t, c, "devices", "-o", format)
		compare.NoError(t, fmt.Sprintf("-o %s", format), check(out))
		if code != 1 || errs != "kubectl accelerator: no answer from worker-2\n" {
			t.Errorf("-o %s: exit code %d, want 1; stderr %q", format, code, errs)
		}
	}
}

// With DRA, a device that a rule of the cluster taints needs attention. This also works with the API of Kubernetes
// 1.36.
func TestTaintRules(t *testing.T) {
	const list = `{"items":[{"metadata":{"name":"fan"},"spec":{"deviceSelector":{"pool":"worker-1","device":"pci-0000-3b-00-0"},"taint":{"key":"a","effect":"NoSchedule"}}}]}`
	const tainted = "NODE      ID          HEALTH     HOLDER            RESOURCE               REASONS\n" +
		"worker-1  3b:00.0     healthy    default/job/main  b-com.com/accelerator  DeviceTaintRule/fan\n"
	const broken = "worker-1  3b:00.0-p1  unhealthy  -                 b-com.com/accelerator  port-ap6\n"
	dra := strings.Replace(state, "devicePlugin", "dra", 1)
	for _, version := range []string{"v1", "v1beta2"} {
		c := simcluster.Start(t, simcluster.NewPod("worker-1", "kube-system", "fpga", "dra", simcluster.Prints(dra)))
		c.SetObject("/apis/resource.k8s.io/"+version+"/devicetaintrules", list)
		out, errs, code := kubectl(t, c, "devices", "--unhealthy")
		if diff := cmp.Diff(tainted+broken, out); diff != "" || errs != "" || code != 0 {
			t.Errorf("%s: (-want +got):\n%s\nstderr %q, exit code %d", version, diff, errs, code)
		}
		c.Deny("list devicetaintrules")
		out, errs, code = kubectl(t, c, "devices")
		if strings.Contains(out, "fan") || !strings.Contains(errs, "not shown: DeviceTaintRules: you don't have permission") || code != 0 {
			t.Errorf("%s: without the right: %s\nstderr %q, exit code %d", version, out, errs, code)
		}
	}
	c := simcluster.Start(t, simcluster.NewPod("worker-1", "kube-system", "fpga", "devicePlugin", simcluster.Prints(state)))
	c.SetObject("/apis/resource.k8s.io/v1/devicetaintrules", list)
	if out, errs, _ := kubectl(t, c, "devices"); strings.Contains(out, "fan") || errs != "" {
		t.Errorf("device plugin: a rule, which is about claims, is shown: %s%s", out, errs)
	}
}

func TestExitCodes(t *testing.T) {
	c := twoNodes(t)
	none := simcluster.Start(t)
	denied := twoNodes(t)
	denied.Deny("list pods")
	for _, test := range []struct {
		args []string
		in   *simcluster.Cluster
		code int
		says string // in its output
	}{
		{[]string{"devices", "worker-1"}, c, 0, "3b:00.0-p1"},
		{[]string{"devices", "worker-1", "worker-9"}, c, 1, "found no pod of the plugin on this node"},
		{[]string{"devices"}, none, 1, "kubectl accelerator: found no pod of the plugin in any namespace, want one with the labels "},
		{[]string{"devices", "-n", "lab"}, none, 1, "found no pod of the plugin in namespace lab"},
		{[]string{"devices", "-l", "a=b"}, c, 1, `want one with the labels "a=b"`},
		{[]string{"devices"}, denied, 1, `you don't have permission: pods is forbidden: User "jane" cannot list resource "pods" in API group "" at the cluster scope`},
		{[]string{"devices", "--context", "none"}, c, 1, `context "none" does not exist`},
		{[]string{"devices", "-o", "xml"}, c, 2, `--output: found "xml", want one of wide, json, yaml, custom-columns=, go-template=`},
		{[]string{"devices", "-o", "custom-columns=NODE"}, c, 2, `found "NODE", want HEADER:path`},
		{[]string{"devices", "-o", "custom-columns=A:{.a[}"}, c, 2, "custom-columns: A: "},
		{[]string{"devices", "-o", "jsonpath={.a"}, c, 2, "--output: "},
		{[]string{"devices", "--node-timeout", "0s"}, c, 2, "--node-timeout: found 0s"},
		{[]string{"flaps", "worker-1"}, c, 0, "found no card whose health has changed since then"},
		{[]string{"flaps", "--since", "week"}, c, 2, `--since: found "week", want a duration such as 90m, 12h or 7d`},
		{[]string{"flaps", "--since", "-1h"}, c, 2, `--since: found "-1h"`},
		{[]string{"explain", "port-ap6"}, none, 0, "the port was shut down because of power or heat"},
		{[]string{"explain"}, none, 0, "power-throttled=6 "},
		{[]string{"explain", "port-ap7"}, none, 2, `REASON: found "port-ap7", want one that explain lists if you leave out REASON; similar: port-dead, `},
		{[]string{"ui"}, denied, 1, `you don't have permission: pods is forbidden: User "jane" cannot list resource "pods"`},
		{[]string{"ui"}, none, 1, "found no pod of the plugin in any namespace"},
		{[]string{"ui", "worker-9"}, c, 1, "worker-9: found no pod of the plugin on this node"},
		{[]string{"dance"}, c, 2, `unknown command "dance"`},
		{[]string{"flap"}, c, 2, "unknown command \"flap\" for \"kubectl accelerator\", did you mean flaps\nRun"},
		{[]string{"flaps", "86:00.0"}, c, 2, `NODE: found "86:00.0", want the name of a node`},
		{[]string{"devices", "--kubeconfig", "/dev/null"}, c, 1, "found no kubeconfig with a current context"},
		{[]string{"version"}, none, 0, "kubectl-accelerator "},
		{[]string{"--help"}, none, 0, "kubectl accelerator devices --unhealthy"},
	} {
		out, errs, code := kubectl(t, test.in, test.args...)
		if code != test.code || !strings.Contains(out+errs, test.says) {
			t.Errorf("%v: exit code %d, want %d and %q:\n%s%s", test.args, code, test.code, test.says, out, errs)
		}
	}
}

// Nodes, cards and formats are completed.
func TestCompletion(t *testing.T) {
	for _, test := range []struct {
		want string
		args []string
	}{
		{"worker-1\nworker-2\n:4\n", []string{"devices", ""}},
		{"worker-1\nworker-2\n:4\n", []string{"cordon", ""}},
		{"3b:00.0\n:4\n", []string{"cordon", "worker-1", ""}},
		{":4\n", []string{"can-pull", "worker-1", "3b:00.0", ""}},
		{"json\n:4\n", []string{"can-pull", "-o", ""}},
	} {
		out, _, code := kubectl(t, twoNodes(t), append([]string{"__complete"}, test.args...)...)
		if code != 0 || out != test.want {
			t.Errorf("%q: exit code %d, completion %q, want %q", test.args, code, out, test.want)
		}
	}
}

// An interrupted command ends at once.
func TestInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	c := simcluster.Start(t, simcluster.NewPod("worker-1", "kube-system", "fpga", "dra", func(ctx context.Context, _ []string, _, _ io.Writer) int {
		cancel()
		<-ctx.Done()
		return -1
	}))
	var out, errs strings.Builder
	if code := run(ctx, []string{"--kubeconfig", c.Kubeconfig(t), "devices", "--node-timeout", "1h"}, &out, &errs); code != 1 || errs.String() != "kubectl accelerator: interrupted\n" {
		t.Errorf("exit code %d, %q, want that it was interrupted", code, errs.String())
	}
}

// With real daemons, the tables of the fleet show what `devices` prints on each node, and a card that failed comes
// first in flaps.
func TestDaemons(t *testing.T) {
	one, two := startNode(t, "two-ports"), startNode(t, "two-ports", "pac-d5005")
	c := simcluster.Start(t,
		simcluster.NewPod("worker-1", "kube-system", "fpga", "devicePlugin", one.run), simcluster.NewPod("worker-2", "lab", "fpga", "dra", two.run))
	two.simulate("break", "3b:00.0-p1")
	two.await("port-ap6")
	out, errs, code := kubectl(t, c, "devices", "--unhealthy")
	if want := regexp.MustCompile(`^NODE +ID +HEALTH +HOLDER +RESOURCE +REASONS\nworker-2 +3b:00.0-p1 +unhealthy +\? +b-com.com/accelerator +port-ap6\n$`); code != 0 || !want.MatchString(out) {
		t.Errorf("devices --unhealthy: exit code %d, want 0 and %s\n%s%s", code, want, out, errs)
	}
	if want := "kubectl accelerator: worker-1, worker-2: the holders of devices are not known: "; !strings.HasPrefix(errs, want) {
		t.Errorf("devices --unhealthy: stderr %q, want %q", errs, want)
	}
	two.simulate("heal", "3b:00.0-p1")
	two.await(`"to": "healthy"`)
	out, errs, code = kubectl(t, c, "flaps")
	if want := regexp.MustCompile(`^NODE +CARD +FAILURES +TOTAL +REMOVALS +LAST +HEALTH +REASONS\nworker-2 +3b:00.0 +1 +1 +0 +\d{4}-\d\d-\d\d \d\d:\d\d +(un)?healthy +port-ap6\n$`); code != 0 || !want.MatchString(out) {
		t.Errorf("flaps: exit code %d, want 0 and %s\n%s%s", code, want, out, errs)
	}
	out, _, code = kubectl(t, c, "devices", "-o", "custom-columns=NODE:.node,NS:.namespace,ID:.id,PCI:.pciId")
	want := `NODE      NS           ID          PCI
worker-1  kube-system  3b:00.0     8086:09c4
worker-1  kube-system  3b:00.0-p1  8086:09c4
worker-2  lab          3b:00.0     8086:09c4
worker-2  lab          3b:00.0-p1  8086:09c4
worker-2  lab          5e:00.0     8086:0b2b
`
	if diff := cmp.Diff(want, out); diff != "" || code != 0 {
		t.Errorf("devices: exit code %d (-want +got):\n%s", code, diff)
	}
}

// A command on the page refers to the cluster of ui. A shell does not execute any part of a context's name.
func TestGiven(t *testing.T) {
	root := newRoot()
	cmd, _, err := root.Find([]string{"ui"})
	must.Succeed(t, err)
	must.Succeed(t, cmd.ParseFlags([]string{"--context", "it's $(date)", "-n", "fpga-system", "--token", "secret", "--as", "olga", "--as-group", "a", "--as-group", "b c"}))
	const of = ` --context 'it'\''s $(date)' --as olga --as-group a --as-group 'b c'`
	compare.Equal(t, "beginnings", [2]string{"kubectl" + of, "kubectl accelerator" + of + " --namespace fpga-system"}, beginnings(cmd))
}
