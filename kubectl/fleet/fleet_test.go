package fleet_test

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"

	"b-com.com/accelerator-device-plugin/kubectl/fleet"
	"b-com.com/accelerator-device-plugin/kubectl/test/simcluster"
	"b-com.com/accelerator-device-plugin/test/compare"
	"b-com.com/accelerator-device-plugin/test/must"
	"b-com.com/accelerator-device-plugin/test/patient"
)

func TestMain(m *testing.M) {
	klog.SetLogger(logr.Discard()) // as the program does
	os.Exit(m.Run())
}

// state is the answer of a daemon with one device.
func state(id string) string {
	return fmt.Sprintf(`{"version":"v1","api":"devicePlugin","devices":[{"id":%q,"health":"healthy"}],"cards":[]}`, id)
}

func newFleet(t *testing.T, c *simcluster.Cluster, namespace string) *fleet.Fleet {
	t.Helper()
	f := must.Value(fleet.New(c.Config(), namespace, ""))(t)
	f.SetPause(time.Millisecond)
	return f
}

// summary returns NODE POD: IDs or error, a line for each answer.
func summary(answers []fleet.Answer) string {
	var b strings.Builder
	for _, a := range answers {
		fmt.Fprintf(&b, "%s %s:", a.Node, a.Pod)
		for _, d := range a.State.Devices {
			fmt.Fprintf(&b, " %s", d["id"])
		}
		if a.Err != nil {
			fmt.Fprintf(&b, " %v", a.Err)
		}
		b.WriteString("\n")
	}
	return b.String()
}

func ask(t *testing.T, f *fleet.Fleet, nodes ...string) string {
	t.Helper()
	targets := must.Value(f.Targets(t.Context(), nodes...))(t)
	return summary(f.Ask(t.Context(), targets))
}

// If a node fails, its answer is the reason, and the answers of other nodes are not hidden.
func TestBadNodes(t *testing.T) {
	plugin := func(node string, run simcluster.Command) *simcluster.Pod {
		return simcluster.NewPod(node, "kube-system", "fpga", "devicePlugin", run)
	}
	fails := func(code int, text string) simcluster.Command {
		return func(_ context.Context, _ []string, _, stderr io.Writer) int {
			fmt.Fprintln(stderr, text)
			return code
		}
	}
	for _, test := range []struct {
		name, want string
		run        simcluster.Command
	}{
		{"not JSON", "its answer is not that of the plugin, or incomplete: invalid character 'h'", simcluster.Prints("hello")},
		{"empty", "its answer is empty", simcluster.Prints("")},
		{"ends in the middle", "its answer is not that of the plugin, or incomplete: unexpected end of JSON input", simcluster.Prints(state("3b:00.0")[:50])},
		{"another JSON", "its answer is not that of the plugin: version: found none", simcluster.Prints("{}")},
		{"terminal escapes", `invalid character '\x1b'`, simcluster.Prints("\x1b]0;title\a")},
		{"100 MB", "its answer has more than 8 MiB", func(ctx context.Context, _ []string, stdout, _ io.Writer) int {
			for range 100 {
				if _, err := stdout.Write(make([]byte, 1<<20)); err != nil {
					return -1
				}
			}
			return 0
		}},
		{"100 MB of errors", "^", fails(1, strings.Repeat("^", 100<<20))},
		{"hangs", "no answer within 5s", func(ctx context.Context, _ []string, stdout, _ io.Writer) int {
			io.WriteString(stdout, "{")
			<-ctx.Done()
			return -1
		}},
		{"breaks", "next reader: ", func(context.Context, []string, io.Writer, io.Writer) int { return -1 }},
		{"fails", "the daemon could not be asked: no such file", fails(1, "accelerator-device-plugin: the daemon could not be asked: no such file")},
		{"fails silently", "exit code 137 without a message", fails(137, "")},
		{"older", "older than this command", fails(2, `accelerator-device-plugin: --output: found "state", want one of json, yaml, wide`)},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			c := simcluster.Start(t, plugin("a", simcluster.Prints(state("3b:00.0"))), plugin("b", test.run), plugin("c", simcluster.Prints(state("5e:00.0"))))
			f := newFleet(t, c, "")
			f.Limit = patient.Limit
			if test.name == "hangs" {
				f.Limit = 5 * time.Second
			}
			got := strings.Split(ask(t, f), "\n")
			if len(got) != 4 || got[0] != "a fpga-a: 3b:00.0" || !strings.HasPrefix(got[1], "b fpga-b: ") || !strings.Contains(got[1], test.want) || got[2] != "c fpga-c: 5e:00.0" {
				t.Errorf("answers:\n%.2000s\nwant those of a and c, and of b: %s", strings.Join(got, "\n"), test.want)
			}
		})
	}
}

// Which pods are asked.
func TestTargets(t *testing.T) {
	answers := func(id string) simcluster.Command { return simcluster.Prints(state(id)) }
	pod := func(node, release, api string, change func(*simcluster.Pod)) *simcluster.Pod {
		p := simcluster.NewPod(node, "kube-system", release, api, answers("of-"+release))
		if change != nil {
			change(p)
		}
		return p
	}
	c := simcluster.Start(t,
		pod("both", "fpga", "devicePlugin", nil), pod("both", "other", "dra", nil),
		pod("dra", "fpga-dra", "dra", nil),
		// An upgrade: the old pod, which is ready, and the new one.
		pod("upgrade", "fpga", "devicePlugin", func(p *simcluster.Pod) { p.Run = answers("old") }),
		pod("upgrade", "fpga", "devicePlugin", func(p *simcluster.Pod) {
			p.Name, p.Status.Conditions, p.CreationTimestamp = "fpga-new", nil, metav1.Unix(2e9, 0)
		}),
		// After it: the new pod, and the old one, which ends.
		pod("upgraded", "fpga", "devicePlugin", func(p *simcluster.Pod) {
			p.Name, p.DeletionTimestamp = "fpga-old", &metav1.Time{Time: time.Unix(2e9, 0)}
		}),
		pod("upgraded", "fpga", "devicePlugin", func(p *simcluster.Pod) { p.Run = answers("new") }),
		pod("finishes", "fpga", "devicePlugin", nil),
		pod("finishes", "fpga-dra", "dra", func(p *simcluster.Pod) {
			p.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "ACCELERATOR_FINISH_CLAIMS", Value: "true"}}
		}),
		pod("pulls", "fpga", "devicePlugin", func(p *simcluster.Pod) {
			p.Status.Phase = corev1.PodPending
			p.Status.ContainerStatuses[0].State = corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff"}}
		}),
		pod("evicted", "fpga", "devicePlugin", func(p *simcluster.Pod) { p.Status.Phase = corev1.PodFailed }),
		pod("else", "fpga", "devicePlugin", func(p *simcluster.Pod) { p.Labels["app.kubernetes.io/name"] = "nginx" }),
		simcluster.NewPod("lab", "lab", "fpga", "devicePlugin", answers("of-lab")),
	)
	for _, test := range []struct {
		name, namespace string
		nodes           []string
		want            string
	}{
		{"all", "", nil, `both fpga-both: of-fpga
both other-both: of-other
dra fpga-dra-dra: of-fpga-dra
finishes fpga-finishes: of-fpga
lab fpga-lab: of-lab
pulls fpga-pulls: its container does not run: pod Pending ImagePullBackOff
upgrade fpga-upgrade: old
upgraded fpga-upgraded: new
`},
		{"a namespace", "lab", nil, "lab fpga-lab: of-lab\n"},
		{"a node", "", []string{"dra"}, "dra fpga-dra-dra: of-fpga-dra\n"},
		{"nodes", "", []string{"lab", "nowhere", "both"}, `both fpga-both: of-fpga
both other-both: of-other
lab fpga-lab: of-lab
nowhere : found no pod of the plugin on this node
`},
	} {
		t.Run(test.name, func(t *testing.T) {
			compare.Values(t, "answers", test.want, ask(t, newFleet(t, c, test.namespace), test.nodes...))
		})
	}
	compare.Error(t, "without pods", "found no pod of the plugin in namespace empty, want one with the labels", compare.ErrorOf(newFleet(t, c, "empty").Targets(t.Context())))
}

// A pod that restarts or is replaced while it is asked is asked once more, and only once.
func TestRestarts(t *testing.T) {
	waiting := corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}}
	for _, test := range []struct {
		name  string
		again func(c *simcluster.Cluster, next *simcluster.Pod) // what happens while the pod is asked; next is a copy of it
		want  string
		asked int
	}{
		{"restarts", func(c *simcluster.Cluster, next *simcluster.Pod) {
			next.Run = simcluster.Prints(state("3b:00.0"))
			c.Set(next)
		}, "n fpga-n: 3b:00.0\n", 2},
		{"is replaced", func(c *simcluster.Cluster, next *simcluster.Pod) {
			c.Delete(next.Namespace, next.Name)
			next.Name, next.Run = "fpga-next", simcluster.Prints(state("3b:00.0"))
			c.Set(next)
		}, "n fpga-next: 3b:00.0\n", 2},
		{"breaks again", func(*simcluster.Cluster, *simcluster.Pod) {}, "n fpga-n: exit code 137 without a message\n", 2},
		{"stays down", func(c *simcluster.Cluster, next *simcluster.Pod) {
			next.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "accelerator-device-plugin", State: waiting}}
			c.Set(next)
		}, "n fpga-n: exit code 137 without a message\n", 1},
		{"is removed", func(c *simcluster.Cluster, next *simcluster.Pod) { c.Delete(next.Namespace, next.Name) },
			"n fpga-n: exit code 137 without a message\n", 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := simcluster.Start(t)
			p := simcluster.NewPod("n", "kube-system", "fpga", "dra", nil)
			p.Run = func(context.Context, []string, io.Writer, io.Writer) int {
				next := *p
				test.again(c, &next)
				return 137
			}
			c.Set(p)
			if diff := cmp.Diff(test.want, ask(t, newFleet(t, c, ""))); diff != "" || c.Asked() != test.asked {
				t.Errorf("asked %d times, want %d; answer (-want +got):\n%s", c.Asked(), test.asked, diff)
			}
		})
	}
}

// If a user lacks a permission, the error says which one, and nothing is asked twice.
func TestRights(t *testing.T) {
	c := simcluster.Start(t, simcluster.NewPod("n", "kube-system", "fpga", "dra", simcluster.Prints(state("3b:00.0"))))
	c.Deny("create pods/exec")
	want := "n fpga-n: you don't have permission: pods \"fpga-n\" is forbidden: User \"jane\" cannot create resource \"pods/exec\" in API group \"\" in the namespace \"kube-system\"\n"
	compare.Values(t, "answer", want, ask(t, newFleet(t, c, "")))
	c.Deny("list pods")
	_, err := newFleet(t, c, "").Targets(t.Context())
	compare.Error(t, "error", `you don't have permission: pods is forbidden: User "jane" cannot list resource "pods" in API group "" at the cluster scope`, err)
}

// At most 64 nodes are asked at once, and in the end all are asked.
func TestParallel(t *testing.T) {
	var mu sync.Mutex
	now, most, full := 0, 0, make(chan struct{})
	c := simcluster.Start(t)
	for i := range 200 {
		c.Set(simcluster.NewPod(fmt.Sprintf("n%03d", i), "kube-system", "fpga", "dra", func(ctx context.Context, args []string, stdout, stderr io.Writer) int {
			mu.Lock()
			if now++; now == 64 && most < 64 {
				close(full)
			}
			most = max(most, now)
			mu.Unlock()
			defer func() { mu.Lock(); now--; mu.Unlock() }()
			select {
			case <-full: // the first 64 have arrived
			case <-ctx.Done():
			}
			return simcluster.Prints(state("3b:00.0"))(ctx, args, stdout, stderr)
		}))
	}
	f := newFleet(t, c, "")
	f.Limit = patient.Limit
	var shown []int
	f.Progress = func(done, total int) { shown = append(shown, done*1000+total) }
	got := ask(t, f)
	if n := strings.Count(got, ": 3b:00.0\n"); n != 200 || most != 64 {
		t.Errorf("%d answers, %d at once, want 200, and 64 at once\n%s", n, most, got)
	}
	if len(shown) != 200 || shown[0] != 1200 || shown[199] != 200200 {
		t.Errorf("progress %v, want 200 calls", shown)
	}
}
