package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"b-com.com/accelerator-device-plugin/kubectl/test/simcluster"
	"b-com.com/accelerator-device-plugin/test/doccmd"
	"b-com.com/accelerator-device-plugin/test/golden"
	"b-com.com/accelerator-device-plugin/test/must"
)

const document = "../../../docs/kubectl.md"

// documented returns the nodes of the documentation.
func documented(t *testing.T) *simcluster.Cluster {
	turn := func(daysAgo int, to, reason string) string {
		at := time.Now().AddDate(0, 0, -daysAgo).Format(time.RFC3339)
		return fmt.Sprintf(`{"time":%q,"device":"3b:00.0-p1","from":"healthy","to":%q,"reason":%q,"ofCard":true}`, at, to, reason)
	}
	device := func(id, health, reasons, holder string) string {
		return fmt.Sprintf(`{"id":%q,"health":%q,"reasons":[%s],"holder":[%s],"holderKnown":true,"held":%t,"resource":"b-com.com/accelerator",
			"family":"dfl","pciId":"8086:09c4","numaNode":0,"deviceNodes":["/dev/dfl-port.0"],"cordon":null}`, id, health, reasons, holder, holder != "")
	}
	answers := map[string]string{
		"worker-1": `{"version":"0.3.0","api":"devicePlugin","devices":[` + device("3b:00.0", "healthy", "", `"default/training-0/main"`) + `],"cards":[]}`,
		"worker-2": `{"version":"0.3.0","api":"dra","verdict":{"faulty":["3b:00.0-p1"]},"devices":[` + device("3b:00.0", "healthy", "", `"default/training-1/main"`) + "," +
			device("3b:00.0-p1", "unhealthy", `"port-ap6"`, "") + `,{"id":"5e:00.0","health":"unhealthy","reasons":["missing"],"holder":[],
			"holderKnown":true,"held":false,"resource":"","missingSince":"2026-11-20T03:12:09Z"}],
			"cards":[{"card":"3b:00.0","healthChanges":31,"failures":15,"removals":0,"recent":[` + turn(3, "unhealthy", "port-ap6") + "," + turn(3, "healthy", "") + "," +
			turn(2, "degraded", "power-throttled=1") + "," + turn(1, "unhealthy", "port-ap6") + `]},{"card":"5e:00.0","healthChanges":2,"failures":1,"removals":1,"lastRemoved":` + strconv.Quote(time.Now().AddDate(0, 0, -1).Format(time.RFC3339)) + `,"recent":[]}]}`,
	}
	c := simcluster.Start(t)
	for node, text := range answers {
		api := "devicePlugin"
		if strings.Contains(text, `"dra"`) {
			api = "dra"
		}
		c.Set(simcluster.NewPod(node, "kube-system", "fpga", api, func(ctx context.Context, args []string, stdout, stderr io.Writer) int {
			const cordoned = "3b:00.0 cordoned by jane since 2026-11-22 10:22: port shuts down, ticket 4711\n" // as the plugin prints it: TestCordon
			switch args[1] {
			case "cordon":
				io.WriteString(stdout, cordoned+"  3b:00.0 is out of service, still in use by default/training-1/main\n  3b:00.0-p1 is out of service, free\n")
				return 0
			case "uncordon":
				io.WriteString(stdout, "ended: "+cordoned+"  3b:00.0 is healthy, in use by default/training-1/main\n  3b:00.0-p1 is unhealthy port-ap6, free\n")
				return 0
			}
			return simcluster.NewNode(text).Run(ctx, args, stdout, stderr)
		}))
	}
	c.Kubelet(func(p *simcluster.Pod) {
		next := *p
		next.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "accelerator-device-plugin", State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 1}}}}
		next.Logs = []string{`{"address":"0000:3b:00.0","answer":"no","reasons":[
			{"answer":"no","what":"3b:00.0 is not cordoned: a new pod can get it at any time","do":"accelerator-device-plugin cordon 3b:00.0 --why TEXT"},
			{"answer":"no","what":"in use by default/training-1/main","do":"ask the pod's owner, or run: kubectl --namespace default delete pod training-1"}]}`}
		c.Set(&next)
	})
	pending := simcluster.NewPod("worker-3", "kube-system", "fpga", "devicePlugin", nil)
	pending.Status = corev1.PodStatus{Phase: corev1.PodPending, ContainerStatuses: []corev1.ContainerStatus{{
		Name: "accelerator-device-plugin", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff"}},
	}}}
	c.Set(pending)
	return c
}

// The commands and flags in the documents and in the help exist.
func TestDocumentedCommands(t *testing.T) {
	found := append(doccmd.Commands(t, "../../..", program), doccmd.Examples(newRoot(), program)...)
	doccmd.Check(t, 60, found, newRoot)
}

// docs/kubectl.md has the output of its commands. Dates differ. -update writes it.
func TestDocs(t *testing.T) {
	t.Setenv("KUBECONFIG", documented(t).Kubeconfig(t))
	text := must.Value(os.ReadFile(document))(t)
	command := regexp.MustCompile(`(?m)^    \$ kubectl accelerator (.+)\n((?:    [^$\n].*\n)*)`)
	date := regexp.MustCompile(`\d{4}-\d\d-\d\d \d\d:\d\d`)
	if n := len(command.FindAll(text, -1)); n < 8 {
		t.Fatalf("%d commands, want at least 8", n)
	}
	got := command.ReplaceAllStringFunc(string(text), func(block string) string {
		m := command.FindStringSubmatch(block)
		words := must.Value(exec.CommandContext(t.Context(), "sh", "-c", `for word in `+m[1]+`; do printf '%s\0' "$word"; done`).Output())(t)
		args := append(strings.Split(strings.TrimSuffix(string(words), "\x00"), "\x00"), "--node-timeout=1m")
		var out strings.Builder
		run(t.Context(), args, &out, &out)
		block = "    $ kubectl accelerator " + m[1] + "\n"
		for line := range strings.Lines(out.String()) {
			block += strings.TrimRight("    "+line, " \n") + "\n"
		}
		return date.ReplaceAllString(block, "2026-11-22 10:22")
	})
	golden.Compare(t, document, got)
}
