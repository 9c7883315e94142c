package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"b-com.com/accelerator-device-plugin/kubectl/test/simcluster"
	"b-com.com/accelerator-device-plugin/test/compare"
	"b-com.com/accelerator-device-plugin/test/must"
	"b-com.com/accelerator-device-plugin/test/patient"
)

// A card is cordoned, uncordoned and forgotten on behalf of the user, even if the node has another release without this
// card.
func TestCordon(t *testing.T) {
	n, other := startNode(t, "two-ports"), startNode(t)
	c := simcluster.Start(t,
		simcluster.NewPod("worker-1", "kube-system", "fpga", "devicePlugin", n.run), simcluster.NewPod("worker-1", "lab", "lab", "devicePlugin", other.run))
	out, errs, code := kubectl(t, c, "cordon", "worker-1", "3b:00.0", "--why", "replace the fan", "--for", "2h")
	want := regexp.MustCompile(`^3b:00.0 cordoned by jane since [-0-9: ]{16} until [-0-9: ]+: replace the fan\n  3b:00.0 is out of service, holder unknown\n  3b:00.0-p1 is out of service, holder unknown\n$`)
	if code != 0 || errs != "" || !want.MatchString(out) {
		t.Errorf("cordon: exit code %d, want 0 and %s\n%s%s", code, want, out, errs)
	}
	out, _, _ = kubectl(t, c, "devices", "-o", "custom-columns=ID:.id,BY:.cordon.by,WHY:.cordon.why,REASONS:.reasons")
	compare.Values(t, "devices", `ID          BY    WHY              REASONS
3b:00.0     jane  replace the fan  cordoned
3b:00.0-p1  jane  replace the fan  cordoned
`, out)
	out, errs, code = kubectl(t, c, "uncordon", "worker-1", "3b:00.0")
	if want := regexp.MustCompile(`^ended: 3b:00.0 cordoned by jane since .*: replace the fan\n  3b:00.0 is healthy, `); code != 0 || errs != "" || !want.MatchString(out) {
		t.Errorf("uncordon: exit code %d, want 0 and %s\n%s%s", code, want, out, errs)
	}
	for _, test := range []struct {
		args []string
		code int
		says []string
	}{
		{[]string{"forget", "worker-1", "3b:00.0"}, 1, []string{"worker-1 (kube-system/fpga-worker-1): ", "card: found 3b:00.0, which is present"}},
		{[]string{"forget", "worker-1", "99:00.0"}, 1, []string{"worker-1 (lab/lab-worker-1): ", "card: found 99:00.0, want one that this node remembers: there is none"}},
		{[]string{"forget", "worker-1", "3b:00.0", "5e:00.0"}, 2, []string{"found 3 arguments, want NODE and CARD"}},
		{[]string{"uncordon", "worker-1", "3b:00.0"}, 1, []string{"worker-1 (kube-system/fpga-worker-1): ", "device 3b:00.0 is not cordoned"}},
		{[]string{"cordon", "worker-1", "99:00.0", "--why", "x"}, 1, []string{"worker-1 (lab/lab-worker-1): ", `DEVICE: found "99:00.0", want a device of this node (3b:00.0, 3b:00.0-p1); `}},
		{[]string{"cordon", "worker-9", "3b:00.0", "--why", "x"}, 1, []string{"worker-9: found no pod of the plugin on this node"}},
		{[]string{"cordon", "worker-1", "card", "--why", "x"}, 2, []string{`DEVICE: found "card", want the PCI address of a card`, "Run 'kubectl accelerator cordon --help'"}},
		{[]string{"cordon", "worker-1", "3b:00.0"}, 2, []string{"--why: found none"}},
		{[]string{"cordon", "worker-1", "3b:00.0", "--why", "x", "--for", "-2h"}, 2, []string{"--for: found -2h0m0s"}},
		{[]string{"cordon", "worker-1"}, 2, []string{"found 1 arguments, want NODE and CARD"}},
		{[]string{"uncordon", "worker-1", "--", "3b:00.0", "--socket=/tmp/x"}, 2, []string{`found "--socket=/tmp/x", want NODE and CARD`}},
	} {
		out, errs, code := kubectl(t, c, test.args...)
		for _, want := range test.says {
			if code != test.code || !strings.Contains(out+errs, want) {
				t.Errorf("%v: exit code %d, want %d and %q:\n%s%s", test.args, code, test.code, want, out, errs)
			}
		}
	}
	n.simulate("pull", "3b:00.0")
	patient.Await(t, "the end of the card", func() error {
		if out, errs, code := kubectl(t, c, "forget", "worker-1", "3b:00.0"); code != 0 || out != "3b:00.0 forgotten\n" {
			return fmt.Errorf("forget: exit code %d: %s%s", code, out, errs)
		}
		return nil
	})
	c.Deny("create pods/exec")
	if _, errs, code := kubectl(t, c, "cordon", "worker-1", "3b:00.0", "--why", "x"); code != 1 || !strings.Contains(errs, `you don't have permission: pods "fpga-worker-1" is forbidden: User "jane" cannot create resource "pods/exec" in API group "" in the namespace "kube-system"`) {
		t.Errorf("cordon without the right: exit code %d, %s", code, errs)
	}
}

// The pod gives the same answer as the program on the node, which reads the cards itself.
func TestCanPull(t *testing.T) {
	n := startNode(t, "two-ports")
	c := simcluster.Start(t, simcluster.NewPod("worker-1", "kube-system", "fpga", "devicePlugin", n.run))
	c.Kubelet(func(p *simcluster.Pod) {
		var out bytes.Buffer
		code := n.run(t.Context(), p.Spec.Containers[0].Command, &out, &out)
		next := *p
		next.Status.Phase = corev1.PodSucceeded
		next.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "accelerator-device-plugin", State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: int32(code)}}}}
		next.Logs = []string{out.String()}
		c.Set(&next)
	})
	const open = "no\n3b:00.0 is not cordoned: a new pod can get it at any time: kubectl accelerator cordon worker-1 3b:00.0 --why TEXT\n"
	for _, test := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{"worker-1", "3b:00.0"}, 1, open},
		{[]string{"worker-1", "0000:3B:00.0"}, 1, open},
		{[]string{"worker-1", "3b:00.0", "-n", "kube-system"}, 1, strings.Replace(open, "accelerator cordon", "accelerator --namespace kube-system cordon", 1)},
		{[]string{"worker-1", "3b:00.0", "-o", "json"}, 1, "{\n  \"address\": \"0000:3b:00.0\",\n  \"answer\": \"no\",\n"},
		{[]string{"worker-1", "99:00.0"}, 1, "unknown\nno card in slot 99:00.0 of this node, which has 3b:00.0: check the address\n"},
		{[]string{"worker-9", "3b:00.0"}, 1, "kubectl accelerator: worker-9: found no pod of the plugin on this node\n"},
		{[]string{"worker-1", "3b:00.0-p1"}, 2, `kubectl accelerator: CARD: found "3b:00.0-p1", want the PCI address of a card, such as 3b:00.0`},
		{[]string{"worker-1", "--", "--help"}, 2, `kubectl accelerator: CARD: found "--help"`},
		{[]string{"worker-1,metadata.name=x", "3b:00.0"}, 2, `kubectl accelerator: NODE: found "worker-1,metadata.name=x", want the name of a node`},
		{[]string{"worker-1"}, 2, "kubectl accelerator: found 1 arguments, want NODE and CARD"},
		{[]string{"worker-1", "3b:00.0", "-o", "yaml"}, 2, `kubectl accelerator: --output: found "yaml", want json`},
		{[]string{"worker-1", "3b:00.0", "--timeout", "0s"}, 2, "kubectl accelerator: --timeout: found 0s"},
	} {
		out, errs, code := kubectl(t, c, append([]string{"can-pull"}, test.args...)...)
		out = regexp.MustCompile(` --kubeconfig \S+`).ReplaceAllString(out, "") // which the test gives
		if code != test.code || !strings.HasPrefix(out+errs, test.says) || len(c.Pods()) != 1 {
			t.Errorf("%v: exit code %d, want %d and %q:\n%s%s", test.args, code, test.code, test.says, out, errs)
		}
	}
	c.Kubelet(func(p *simcluster.Pod) {
		next := *p
		next.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "accelerator-device-plugin", State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{}}}}
		next.Logs = []string{`{"address":"0000:3b:00.0","answer":"yes","reasons":[]}`}
		c.Set(&next)
	})
	if out, errs, code := kubectl(t, c, "can-pull", "worker-1", "3b:00.0"); code != 0 || out+errs != "yes\n" {
		t.Errorf("exit code %d, %q, want 0 and yes", code, out+errs)
	}
	c.Deny("delete pods")
	if out, errs, code := kubectl(t, c, "can-pull", "worker-1", "3b:00.0"); code != 1 || out != "yes\n" || !strings.Contains(errs, "the pod could not be removed: you don't have permission: ") {
		t.Errorf("without the right to delete: exit code %d, %q, %q, want 1 and yes", code, out, errs)
	}
}

// A signal ends can-pull, which removes its pod first.
func TestCanPullSignals(t *testing.T) {
	signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP) // without this, the program ignores SIGHUP if the test was started by nohup
	defer signal.Reset(syscall.SIGHUP)
	for _, sent := range []os.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP} {
		c := simcluster.Start(t, simcluster.NewPod("worker-1", "kube-system", "fpga", "devicePlugin", nil))
		created := make(chan string, 1)
		c.Kubelet(func(p *simcluster.Pod) { created <- p.Name })
		cmd := exec.CommandContext(t.Context(), os.Args[0], "--kubeconfig", c.Kubeconfig(t), "can-pull", "worker-1", "3b:00.0", "--timeout", "1h")
		cmd.Env = append(os.Environ(), asProgram+"=yes")
		var out strings.Builder
		cmd.Stdout, cmd.Stderr = &out, &out
		must.Succeed(t, cmd.Start())
		name := <-created
		compare.NoError(t, "Signal", cmd.Process.Signal(sent))
		_ = cmd.Wait() // its error is the exit code
		want := "kubectl accelerator: pod " + name + ": interrupted\n"
		if code := cmd.ProcessState.ExitCode(); code != 1 || out.String() != want || len(c.Pods()) != 1 {
			t.Errorf("%v: exit code %d, want 1, %q, want %q, pods %v", sent, code, out.String(), want, c.Pods())
		}
	}
}

// A cordon is not requested twice, and the output of a node cannot control the terminal.
func TestCordonOfABadNode(t *testing.T) {
	c := simcluster.Start(t)
	for name, run := range map[string]simcluster.Command{
		"escapes": func(_ context.Context, _ []string, stdout, _ io.Writer) int {
			io.WriteString(stdout, "\x1b]0;title\a\nnext\x9b\n")
			return 0
		},
		"breaks": func(context.Context, []string, io.Writer, io.Writer) int { return -1 },
		"hangs":  func(ctx context.Context, _ []string, _, _ io.Writer) int { <-ctx.Done(); return -1 },
	} {
		c.Set(simcluster.NewPod(name, "kube-system", "fpga", "dra", run))
	}
	for _, test := range []struct {
		node, want string
		code       int
		limit      string
	}{
		{"escapes", "\\x1b]0;title\\a\nnext\\x9b\n", 0, "1m"},
		{"breaks", "kubectl accelerator: breaks (kube-system/fpga-breaks): ", 1, "1m"},
		{"hangs", "kubectl accelerator: hangs (kube-system/fpga-hangs): no answer within 5s: devices shows whether the command has had an effect\n", 1, "5s"},
	} {
		before := c.Asked()
		out, errs, code := kubectl(t, c, "uncordon", test.node, "3b:00.0", "--node-timeout", test.limit)
		if n := c.Asked() - before; code != test.code || !strings.HasPrefix(out+errs, test.want) || n != 1 {
			t.Errorf("%s: exit code %d, %d commands, want %d, 1 and %q:\n%s%s", test.node, code, n, test.code, test.want, out, errs)
		}
	}
}

// The history of a node includes what happened before a container's last restart, and keeps the devices of two pods
// apart.
func TestLogs(t *testing.T) {
	text := must.Value(os.ReadFile("../../../internal/timeline/testdata/hotplug.log"))(t)
	half := strings.LastIndex(string(text[:len(text)/2]), "\n") + 1
	pod := simcluster.NewPod("worker-1", "kube-system", "fpga", "devicePlugin", nil)
	pod.Status.ContainerStatuses[0].RestartCount = 1
	pod.Logs = []string{string(text[:half]), string(text[half:])}
	c := simcluster.Start(t, pod)
	whole := simcluster.NewPod("worker-2", "kube-system", "fpga", "devicePlugin", nil)
	whole.Logs = []string{string(text)}
	c.Set(whole)
	want, _, _ := kubectl(t, c, "logs", "worker-2")
	if out, errs, code := kubectl(t, c, "logs", "worker-1"); code != 0 || out != want || strings.Count(out, "\n") < 10 {
		t.Errorf("logs: exit code %d, stderr %q, want both logs (-want +got):\n%s", code, errs, cmp.Diff(want, out))
	}
	pod = simcluster.NewPod("worker-2", "kube-system", "other", "dra", nil)
	pod.Logs = []string{string(text)}
	c.Set(pod)
	if out, _, code := kubectl(t, c, "logs", "worker-2"); code != 0 || strings.Count(out, "fpga-worker-2") < 10 || strings.Count(out, "fpga-worker-2") != strings.Count(out, "other-worker-2") {
		t.Errorf("logs of two pods: exit code %d, want lines of each with its name:\n%s", code, out)
	}
	gone := simcluster.NewPod("worker-3", "kube-system", "fpga", "dra", nil)
	gone.Status.ContainerStatuses[0].RestartCount = 5
	gone.Logs = []string{string(text)}
	c.Set(gone)
	out, errs, code := kubectl(t, c, "logs", "worker-3")
	if want := "kubectl accelerator: before the last restart: log of kube-system/fpga-worker-3: previous terminated container not found\n"; code != 0 || !strings.HasPrefix(errs, want) || strings.Count(out, "\n") < 10 {
		t.Errorf("logs of a restarted pod: exit code %d, want 0, the log, and %q:\n%s%s", code, want, out, errs)
	}
	for _, test := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{"logs", "worker-9"}, 1, "worker-9: found no pod of the plugin on this node"},
		{[]string{"logs", "worker-1", "--device", "0000:99:00.0"}, 1, "no device 99:00.0 in this log; there are "},
		{[]string{"logs", "worker-1", "--summary"}, 0, "FLAPS"},
		{[]string{"logs", "worker-1", "--since", "noon"}, 2, `--since: found "noon", want a time`},
		{[]string{"logs", "worker-1", "--event", "noon"}, 2, `event: found "noon", want an event`},
		{[]string{"logs"}, 2, "accepts 1 arg(s), received 0"},
	} {
		out, errs, code := kubectl(t, c, test.args...)
		if code != test.code || !strings.Contains(out+errs, test.says) {
			t.Errorf("%v: exit code %d, want %d and %q:\n%s%s", test.args, code, test.code, test.says, out, errs)
		}
	}
	c.Deny("get pods/log")
	if _, errs, code := kubectl(t, c, "logs", "worker-1"); code != 1 || !strings.Contains(errs, `you don't have permission: pods "fpga-worker-1" is forbidden: User "jane" cannot get resource "pods/log" in API group "" in the namespace "kube-system"`) {
		t.Errorf("logs without the right: exit code %d, %s", code, errs)
	}
}
