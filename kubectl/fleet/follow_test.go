package fleet_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"b-com.com/accelerator-device-plugin/kubectl/fleet"
	"b-com.com/accelerator-device-plugin/kubectl/test/simcluster"
	"b-com.com/accelerator-device-plugin/test/compare"
	"b-com.com/accelerator-device-plugin/test/must"
	"b-com.com/accelerator-device-plugin/test/patient"
)

// followed contains the newest change of each node.
type followed struct {
	t    *testing.T
	stop func() error

	mu      sync.Mutex
	nodes   map[string]string // ID,ID or an error, by POD or NODE
	trouble error
	changes int
}

// follow follows a cluster, after f is set.
func follow(t *testing.T, c *simcluster.Cluster, set ...func(f *fleet.Fleet)) *followed {
	t.Helper()
	f := must.Value(fleet.New(c.Config(), "", ""))(t)
	f.SetRelist(100 * time.Millisecond)
	f.SetPause(100 * time.Millisecond)
	for _, set := range set {
		set(f)
	}
	got := &followed{t: t, nodes: map[string]string{}}
	names := map[string]string{}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- f.Follow(ctx, nil, func(change fleet.Change) {
			got.mu.Lock()
			defer got.mu.Unlock()
			got.changes++
			if change.Key == "" {
				got.trouble = change.Err
				return
			}
			delete(got.nodes, names[change.Key])
			names[change.Key] = change.String()
			switch {
			case change.Gone:
			case change.Err != nil:
				got.nodes[change.String()] = change.Err.Error()
			default:
				var ids []string
				for _, d := range change.State.Devices {
					ids = append(ids, fmt.Sprint(d["id"]))
				}
				got.nodes[change.String()] = strings.Join(ids, ",")
			}
		})
	}()
	got.stop = sync.OnceValue(func() error { cancel(); return <-ended })
	t.Cleanup(func() {
		compare.NoError(t, "Follow", got.stop())
	})
	return got
}

// await waits until these nodes, and no others, have these answers.
func (f *followed) await(want map[string]string) {
	f.t.Helper()
	patient.Await(f.t, "changes", func() error {
		f.mu.Lock()
		defer f.mu.Unlock()
		same := maps.EqualFunc(want, f.nodes, func(want, got string) bool { return strings.HasPrefix(got, want) })
		if !same {
			return fmt.Errorf("found %q, want %q", f.nodes, want)
		}
		return nil
	})
}

func one(id string) string {
	return fmt.Sprintf(`{"version":"v1","api":"dra","devices":[{"id":%q,"health":"healthy"}],"cards":[]}`, id)
}

// A change on a node is reported without asking the node. Pods that come, go and are replaced are followed as well.
func TestFollow(t *testing.T) {
	first := simcluster.NewNode(one("3b:00.0"))
	c := simcluster.Start(t, simcluster.NewPod("worker-1", "lab", "fpga", "dra", first.Run))
	f := follow(t, c)
	f.await(map[string]string{"worker-1 (lab/fpga-worker-1)": "3b:00.0"})
	asked := c.Asked()
	first.Set(one("5e:00.0"))
	f.await(map[string]string{"worker-1 (lab/fpga-worker-1)": "5e:00.0"})
	compare.Equal(t, "questions for a change", 0, c.Asked()-asked)

	c.Set(simcluster.NewPod("worker-2", "lab", "fpga", "dra", simcluster.NewNode(one("86:00.0")).Run))
	ends := make(chan struct{})
	c.Set(simcluster.NewPod("worker-3", "lab", "fpga", "dra", func(ctx context.Context, args []string, stdout, stderr io.Writer) int {
		io.WriteString(stdout, one("af:00.0")+"\n")
		<-ends
		return -1
	}))
	f.await(map[string]string{
		"worker-1 (lab/fpga-worker-1)": "5e:00.0", "worker-2 (lab/fpga-worker-2)": "86:00.0", "worker-3 (lab/fpga-worker-3)": "af:00.0",
	})
	// An upgrade: another pod of the release replaces the one whose command ends now. Another node is gone.
	next := simcluster.NewPod("worker-3", "lab", "fpga", "dra", simcluster.NewNode(one("d8:00.0")).Run)
	next.Name = "fpga-new"
	c.Set(next)
	c.Delete("lab", "fpga-worker-3")
	c.Delete("lab", "fpga-worker-2")
	close(ends)
	f.await(map[string]string{"worker-1 (lab/fpga-worker-1)": "5e:00.0", "worker-3 (lab/fpga-new)": "d8:00.0"})
	compare.NoError(t, "stop", f.stop())
}

// A command whose time is over is repeated, even if it has not ended. A single failure after an answer, for example
// because of a restart, is not an error of the node.
func TestFollowRepeats(t *testing.T) {
	var runs atomic.Int64
	c := simcluster.Start(t, simcluster.NewPod("worker-1", "lab", "fpga", "dra", func(ctx context.Context, args []string, stdout, _ io.Writer) int {
		n := runs.Add(1)
		io.WriteString(stdout, one(fmt.Sprintf("card-%d", n))+"\n")
		switch n {
		case 1:
			<-time.After(time.Second)
			return 0
		case 2:
			return 1
		}
		<-ctx.Done()
		return 0
	}))
	f := follow(t, c, func(f *fleet.Fleet) { f.SetLasting(time.Second); f.Limit = time.Second })
	f.await(map[string]string{"worker-1 (lab/fpga-worker-1)": "card-4"})
	if f.mu.Lock(); f.changes < 5 {
		t.Errorf("%d changes, want one for each answer", f.changes)
	}
	f.mu.Unlock()
}

// Commands that have lost their connection stay in the pod for minutes. So a pod that fails after each answer is asked
// less and less often.
func TestFollowAttempts(t *testing.T) {
	lost, refused := errors.New("connection lost"), fmt.Errorf("%w: exec", fleet.ErrRefused)
	var a fleet.Attempts
	for i, step := range []struct {
		err      error
		answered bool
		lived    time.Duration
		wait     time.Duration
		report   bool
	}{
		{lost, false, 0, time.Second, true},
		{lost, true, time.Second, 2 * time.Second, true},
		{lost, true, time.Minute, time.Second, false},
		{lost, true, time.Second, 2 * time.Second, true},
		{lost, true, time.Second, 4 * time.Second, true},
		{lost, true, time.Second, 8 * time.Second, true},
		{lost, true, time.Second, 16 * time.Second, true},
		{lost, true, time.Second, 30 * time.Second, true},
		{lost, false, time.Minute, 30 * time.Second, true},
		{lost, true, time.Minute, time.Second, false},
		{refused, true, time.Hour, 5 * time.Minute, true},
	} {
		if wait, report := a.Failed(step.err, step.answered, step.lived); wait != step.wait || report != step.report {
			t.Errorf("step %d: wait %s, report %t, want %s, %t", i, wait, report, step.wait, step.report)
		}
	}
}

// The loss of a permission is reported at once. If a pod is no longer ready, its node may have died, and the connection
// would not show this.
func TestFollowLostNodes(t *testing.T) {
	ends := make(chan struct{})
	var hangs atomic.Bool
	pod := func() *simcluster.Pod {
		return simcluster.NewPod("worker-2", "lab", "fpga", "dra", func(ctx context.Context, _ []string, stdout, _ io.Writer) int {
			if !hangs.Load() {
				io.WriteString(stdout, one("5e:00.0")+"\n")
			}
			<-ctx.Done()
			return 0
		})
	}
	c := simcluster.Start(t, pod(), simcluster.NewPod("worker-1", "lab", "fpga", "dra", func(_ context.Context, _ []string, stdout, _ io.Writer) int {
		io.WriteString(stdout, one("3b:00.0")+"\n")
		<-ends
		return 1
	}))
	f := follow(t, c, func(f *fleet.Fleet) { f.Limit = 2 * time.Second })
	f.await(map[string]string{"worker-1 (lab/fpga-worker-1)": "3b:00.0", "worker-2 (lab/fpga-worker-2)": "5e:00.0"})
	hangs.Store(true)
	dead := pod()
	dead.Status.Conditions[0].Status = corev1.ConditionUnknown
	c.Set(dead)
	f.await(map[string]string{"worker-1 (lab/fpga-worker-1)": "3b:00.0", "worker-2 (lab/fpga-worker-2)": "no answer within 2s"})
	c.Deny("create pods/exec")
	close(ends)
	f.await(map[string]string{"worker-1 (lab/fpga-worker-1)": "you don't have permission", "worker-2 (lab/fpga-worker-2)": "you don't have permission"})
}

// What a node answers cannot hide another node.
func TestFollowBadNodes(t *testing.T) {
	c := simcluster.Start(t, simcluster.NewPod("good", "lab", "fpga", "dra", simcluster.NewNode(one("3b:00.0")).Run))
	prints := func(text string) simcluster.Command {
		return func(ctx context.Context, _ []string, stdout, _ io.Writer) int {
			io.WriteString(stdout, text)
			<-ctx.Done()
			return 0
		}
	}
	fails := func(code int, text string) simcluster.Command {
		return func(_ context.Context, _ []string, _, stderr io.Writer) int {
			io.WriteString(stderr, text)
			return code
		}
	}
	for name, run := range map[string]simcluster.Command{
		"text":    prints("hello\n"),
		"empty":   prints("\n"),
		"large":   func(ctx context.Context, _ []string, stdout, _ io.Writer) int { return flood(ctx, stdout) },
		"older":   fails(2, "accelerator-device-plugin: --output: found \"state\", want one of json\n"),
		"oldest":  fails(2, "accelerator-device-plugin: unknown flag: --for\n"),
		"fails":   fails(1, "accelerator-device-plugin: no daemon\n"),
		"breaks":  func(context.Context, []string, io.Writer, io.Writer) int { return -1 },
		"escapes": fails(1, "\x1b[31m"),
	} {
		c.Set(simcluster.NewPod(name, "lab", "fpga", "dra", run))
	}
	pending := simcluster.NewPod("pending", "lab", "fpga", "dra", nil)
	pending.Status = corev1.PodStatus{Phase: corev1.PodPending}
	c.Set(pending)
	const older = "the plugin on this node is older than this command needs"
	follow(t, c).await(map[string]string{
		"good (lab/fpga-good)": "3b:00.0", "text (lab/fpga-text)": "its answer is not that of the plugin", "empty (lab/fpga-empty)": "its answer is empty",
		"large (lab/fpga-large)": "its answer has more than 8 MiB", "older (lab/fpga-older)": older, "oldest (lab/fpga-oldest)": older,
		"fails (lab/fpga-fails)": "no daemon", "breaks (lab/fpga-breaks)": "", "escapes (lab/fpga-escapes)": "\x1b[31m",
		"pending (lab/fpga-pending)": "its container does not run: pod Pending",
	})
}

// flood writes one line without an end.
func flood(ctx context.Context, stdout io.Writer) int {
	for text := []byte(strings.Repeat("x", 1<<20)); ctx.Err() == nil; {
		if _, err := stdout.Write(text); err != nil {
			return 0
		}
	}
	return 0
}

// If the pods can no longer be listed, this is reported, and the nodes are followed as before.
func TestFollowTrouble(t *testing.T) {
	node := simcluster.NewNode(one("3b:00.0"))
	ends := make(chan struct{})
	c := simcluster.Start(t, simcluster.NewPod("worker-1", "lab", "fpga", "dra", node.Run),
		simcluster.NewPod("worker-2", "lab", "fpga", "dra", func(context.Context, []string, io.Writer, io.Writer) int { <-ends; return -1 }))
	f := follow(t, c)
	f.await(map[string]string{"worker-1 (lab/fpga-worker-1)": "3b:00.0", "worker-2 (lab/fpga-worker-2)": "not answered yet"})
	c.Deny("list pods")
	close(ends) // so that the pods are listed
	patient.Await(t, "trouble", func() error {
		f.mu.Lock()
		defer f.mu.Unlock()
		if !errors.Is(f.trouble, fleet.ErrRefused) {
			return fmt.Errorf("found %v, want that a right is missing", f.trouble)
		}
		return nil
	})
	node.Set(one("5e:00.0"))
	patient.Await(t, "change", func() error {
		f.mu.Lock()
		defer f.mu.Unlock()
		if !slices.Contains(slices.Collect(maps.Values(f.nodes)), "5e:00.0") {
			return fmt.Errorf("found %q", f.nodes)
		}
		return nil
	})
	denied := must.Value(fleet.New(c.Config(), "", ""))(t)
	if err := denied.Follow(t.Context(), nil, nil); !errors.Is(err, fleet.ErrRefused) {
		t.Errorf("Follow without the right: %v, want that a right is missing", err)
	}
}
