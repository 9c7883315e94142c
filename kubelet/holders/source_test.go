package holders_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"b-com.com/accelerator-device-plugin/inventory"
	"b-com.com/accelerator-device-plugin/kubelet/checkpoint"
	"b-com.com/accelerator-device-plugin/kubelet/holders"
	"b-com.com/accelerator-device-plugin/sim/simkubelet"
	"b-com.com/accelerator-device-plugin/test/cmdtest"
	"b-com.com/accelerator-device-plugin/test/compare"
	"b-com.com/accelerator-device-plugin/test/must"
	"b-com.com/accelerator-device-plugin/test/patient"
)

const port = "example.com/port"

// rig is a source with a fake pod-resources API.
type rig struct {
	*simkubelet.PodResources
	cfg  holders.Config
	path string // the checkpoint's path
}

// newRig returns a rig whose kubelet seems to have been running for an hour, which is longer than the daemon waits.
func newRig(t *testing.T) *rig {
	t.Helper()
	dir := cmdtest.ShortDir(t)
	r := &rig{cfg: holders.Config{
		Rules:  holders.Rules{Owns: func(resource, _ string) bool { return resource == port }, Pod: "host", DevRoot: "/dev", Grace: grace},
		Socket: filepath.Join(dir, "p.sock"), KubeletDir: dir,
	}, path: filepath.Join(dir, checkpoint.File)}
	r.PodResources = must.Value(simkubelet.StartPodResources(t.Context(), r.cfg.Socket))(t)
	t.Cleanup(r.Stop)
	r.started(t, time.Hour)
	return r
}

func (r *rig) started(t *testing.T, ago time.Duration) {
	t.Helper()
	at := time.Now().Add(-ago)
	must.Succeed(t, os.Chtimes(r.cfg.Socket, at, at))
}

func (r *rig) write(t *testing.T, text string) {
	t.Helper()
	must.Succeed(t, os.WriteFile(r.path+"1", []byte(text), 0o600), os.Rename(r.path+"1", r.path))
}

// A device is ending as long as a pod that had it still has processes, whether or not the pod is still in the
// checkpoint.
func TestEnding(t *testing.T) {
	r := newRig(t)
	r.cfg.CgroupRoot = t.TempDir()
	current := filepath.Join(r.cfg.CgroupRoot, "pids/kubepods/besteffort/podu1/pids.current")
	must.Succeed(t, os.MkdirAll(filepath.Dir(current), 0o755), os.WriteFile(current, []byte("2\n"), 0o600))
	s := holders.New(r.cfg)
	ending := func(when string, want ...string) {
		t.Helper()
		compare.Values(t, when, want, s.Ending(port, []string{"3b:00.0"}))
	}
	ending("at first")
	r.write(t, fileOf(t, "u1", port, "3b:00.0", "n"))
	ending("in the checkpoint", "u1")
	compare.Empty(t, "of another device", s.Ending(port, []string{"5e:00.0"}))
	compare.Empty(t, "of another resource", s.Ending("example.com/other", []string{"3b:00.0"}))
	s.Ask(t.Context())
	r.write(t, fileOf(t, "u2", port, "5e:00.0", "n"))
	ending("no longer in the checkpoint", "u1")
	compare.Equal(t, "holdings", 1, len(s.Ask(t.Context()).Of["3b:00.0"]))
	ending("after the next answer", "u1")
	must.Succeed(t, os.WriteFile(current, []byte("0\n"), 0o600))
	ending("after its end")
	s.Ask(t.Context())
	compare.Equal(t, "holdings after its end", 0, len(s.Ask(t.Context()).Of["3b:00.0"]))
}

// A force-deleted pod of another plugin keeps its nodes withheld while it has processes, even if the kubelet doesn't
// rewrite its checkpoint, which only our own leftover entries make it do.
func TestForceDeletedOfAnotherPlugin(t *testing.T) {
	for _, rewritten := range []bool{true, false} {
		r := newRig(t)
		r.cfg.CgroupRoot, r.cfg.Confirm = t.TempDir(), 10*time.Millisecond
		current := filepath.Join(r.cfg.CgroupRoot, "pids/kubepods/besteffort/podu1/pids.current")
		must.Succeed(t, os.MkdirAll(filepath.Dir(current), 0o755), os.WriteFile(current, []byte("2\n"), 0o600))
		r.write(t, fileOf(t, "u1", "example.com/gpu", "gpu0", "/dev/n"))
		r.Hold("ns", "pod", "main", "example.com/gpu", "gpu0")
		s := holders.New(r.cfg)
		compare.Equal(t, "running", 1, len(s.Ask(t.Context()).Of))
		r.Release("ns", "pod")
		if rewritten {
			r.write(t, fileOf(t, "u2", port, "5e:00.0", "m"))
		}
		for began := time.Now(); time.Since(began) < 4*r.cfg.Confirm; {
			compare.Equal(t, "force-deleted, hanging", 1, len(s.Ask(t.Context()).Of["example.com/gpu/gpu0"]))
		}
		must.Succeed(t, os.WriteFile(current, []byte("0\n"), 0o600))
		patient.Await(t, "it is gone", func() error {
			if of := s.Ask(t.Context()).Of["example.com/gpu/gpu0"]; len(of) > 0 {
				return fmt.Errorf("found %v", of)
			}
			return nil
		})
	}
}

// A container may have several devices of another plugin before the first query.
func TestSeveralDevicesOfAnotherPlugin(t *testing.T) {
	r := newRig(t)
	e := fileOf(t, "u1", "example.com/gpu", "gpu-0", "/dev/gpu0")
	r.write(t, strings.Replace(e, `"gpu-0"`, `"gpu-0","gpu-1"`, 1))
	compare.Equal(t, "devices", 1, len(holders.New(r.cfg).Ask(t.Context()).Of))
}

// Recent reuses an answer for a second, while Ask always asks again.
func TestRecent(t *testing.T) {
	r := newRig(t)
	r.Hold("ns", "pod", "main", port, "3b:00.0")
	s := holders.New(r.cfg)
	var callers sync.WaitGroup
	for range 20 {
		callers.Go(func() {
			if h := s.Recent(t.Context()); len(h.Of["3b:00.0"]) != 1 || h.Problem() != nil || h.Awaiting {
				t.Errorf("found %+v", h)
			}
		})
	}
	callers.Wait()
	compare.Equal(t, "questions of 20 callers of Recent", 1, r.Asked())
	s.Ask(t.Context())
	compare.Equal(t, "questions with that of Ask", 2, r.Asked())
	ended, end := context.WithCancel(t.Context())
	end()
	if h := s.Ask(ended); h.Problem() == nil && h.Err == nil {
		t.Errorf("ended context: found %+v, want an error", h)
	}
}

// A released claim is forgotten even if the checkpoint can't be read, so that it isn't held again after a restart.
func TestRecordedClaimWithoutCheckpoint(t *testing.T) {
	r := newRig(t)
	must.Succeed(t, os.Mkdir(r.path, 0o700))
	r.cfg.Grace = 30 * time.Millisecond
	i := must.Value(holders.OpenInjected(""))(t)
	must.Succeed(t, i.SetClaimed(t.Context(), map[string][]string{"3b:00.0": {"n"}}))
	r.cfg.Injected = i
	s := holders.New(r.cfg)
	compare.Equal(t, "held at first", 1, len(s.Ask(t.Context()).Of["3b:00.0"]))
	patient.Await(t, "the grace time is over", func() error {
		if of := s.Ask(t.Context()).Of["3b:00.0"]; len(of) > 0 {
			return fmt.Errorf("found %v", of)
		}
		return nil
	})
	compare.Equal(t, "recorded", 0, len(i.All()))
	compare.Equal(t, "after a restart", 0, len(holders.New(r.cfg).Ask(t.Context()).Of["3b:00.0"]))
}

// Missing sources are listed, and what was known before is kept.
func TestMissing(t *testing.T) {
	r := newRig(t)
	r.write(t, fileOf(t, "uid", port, "3b:00.0", "dfl-port.0"))
	r.Hold("ns", "pod", "main", port, "3b:00.0")
	r.cfg.Claims = func(context.Context) (map[string][]inventory.Holding, error) { return nil, nil }
	s := holders.New(r.cfg)
	for _, step := range []struct {
		name string
		do   func()
		want string // the names and parts of the errors
	}{
		{"all answer", func() {}, ""},
		{"cut off", func() { r.write(t, `{"Data":`) }, "checkpoint: unexpected end"},
		{"too long", func() { r.write(t, strings.Repeat(" ", 16<<20+1)) }, "checkpoint: found more than"},
		{"a directory", func() { _, _ = os.Remove(r.path), os.Mkdir(r.path, 0o700) }, "checkpoint: want a regular"},
		{"the kubelet fails", func() { r.Behave(simkubelet.PodBehaviour{Fail: "broken"}) }, "pod-resources: broken; checkpoint: want a regular"},
		{"all again", func() {
			_ = os.Remove(r.path)
			r.write(t, fileOf(t, "uid", port, "3b:00.0", "dfl-port.0"))
			r.Behave(simkubelet.PodBehaviour{})
		}, ""},
		{"garbage beside it", func() { r.Behave(simkubelet.PodBehaviour{Garbage: true}) }, ""},
		{"too many devices", func() {
			r.Behave(simkubelet.PodBehaviour{})
			for i := range 10_001 {
				r.Hold("ns", "flood", "main", port, fmt.Sprint(i))
			}
		}, "pod-resources: found 10002 devices"},
		{"all again", func() { r.Release("ns", "flood") }, ""},
		{"no checkpoint", func() { _ = os.Remove(r.path) }, "checkpoint: no such file"},
		{"no socket", r.Stop, "pod-resources: no such file; checkpoint: no such file"},
	} {
		step.do()
		h, want := s.Ask(t.Context()), strings.Split(step.want, "; ")
		for i, m := range h.Missing {
			name, part, _ := strings.Cut(want[min(i, len(want)-1)], ": ")
			if m.Name != name || !strings.Contains(m.Err.Error(), part) {
				t.Errorf("%s: missing %s: %v, want %q", step.name, m.Name, m.Err, step.want)
			}
		}
		if (step.want == "") != (len(h.Missing) == 0) || step.want != "" && len(want) != len(h.Missing) {
			t.Errorf("%s: missing %v, want %q", step.name, h.Missing, step.want)
		}
		if len(h.Of["3b:00.0"]) != 1 || !cmp.Equal(h.Of["3b:00.0"][0].Holders[0][:4], "ns/p") && step.name != "garbage beside it" {
			t.Errorf("%s: found %+v, want the holder", step.name, h.Of)
		}
	}
}

// If the kubelet hangs until the context is done, it is the only missing source: the files are read anyway.
func TestMissingHangingKubelet(t *testing.T) {
	r := newRig(t)
	r.Behave(simkubelet.PodBehaviour{Stall: true})
	r.cfg.Claims = func(ctx context.Context) (map[string][]inventory.Holding, error) {
		return map[string][]inventory.Holding{"3b:00.0": {{As: "claim"}}}, context.Cause(ctx)
	}
	r.cfg.DRA = true
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	h := holders.New(r.cfg).Ask(ctx)
	if len(h.Missing) != 1 || h.Missing[0].Name != "pod-resources" || len(h.Of["3b:00.0"]) != 1 {
		t.Errorf("missing %v, found %v, want pod-resources alone missing, and the claim", h.Missing, h.Of)
	}
}

// If the checkpoint has an entry that no answer explains, the kubelet is made to rewrite the checkpoint, and the same
// Ask sees the result.
func TestRefresh(t *testing.T) {
	r := newRig(t)
	r.write(t, fileOf(t, "uid", "example.com/former", "3b:00.0", "dfl-port.0"))
	refreshed := 0
	r.cfg.Refresh = func() bool {
		refreshed++
		r.write(t, `{"Data":{}}`)
		return true
	}
	s := holders.New(r.cfg)
	if h := s.Ask(t.Context()); refreshed != 1 || len(h.Of) != 0 {
		t.Errorf("refreshed %d times, found %+v, want once and nothing", refreshed, h.Of)
	}
	r.write(t, fileOf(t, "uid", port, "3b:00.0", "dfl-port.0"))
	r.Hold("ns", "pod", "main", port, "3b:00.0")
	if h := s.Ask(t.Context()); refreshed != 1 || len(h.Of) != 1 {
		t.Errorf("explained entry: refreshed %d times, found %+v, want once and the holder", refreshed, h.Of)
	}
	r.write(t, fileOf(t, "uid", "example.com/gpu", "3b:00.0", "/dev/gpu0"))
	if s.Ask(t.Context()); refreshed != 2 {
		t.Errorf("a named device without an entry: refreshed %d times, want twice", refreshed)
	}
	r.Release("ns", "pod")
	if s.Ask(t.Context()); refreshed != 2 {
		t.Errorf("entry of another plugin: refreshed %d times, want twice", refreshed)
	}
}

// Record returns the devices in the files, whatever their resource names, without asking the kubelet.
func TestRecord(t *testing.T) {
	r := newRig(t)
	r.write(t, fileOf(t, "uid", "example.com/former", "3b:00.0", "dfl-port.0"))
	want := map[string][]inventory.Holding{"3b:00.0": {{As: "example.com/former", Nodes: []string{"dfl-port.0"}, Containers: []string{"uid/main"}}}}
	got, err := holders.New(r.cfg).Record(t.Context())
	if diff := cmp.Diff(want, got); diff != "" || err != nil || r.Asked() > 0 {
		t.Errorf("asked %d times, %v, record (-want +got):\n%s", r.Asked(), err, diff)
	}
	r.write(t, "{")
	compare.Error(t, "a file that can't be read", "", compare.ErrorOf(holders.New(r.cfg).Record(t.Context())))
}

func TestAllocations(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, begin := holders.NewAllocations(), time.Now()
		var undo func()
		add := func(err error, ids ...string) error {
			undo, err = a.Add(port, func() (map[string][]string, error) {
				nodes := map[string][]string{}
				for _, id := range ids {
					nodes[id] = []string{"node-" + id}
				}
				return nodes, err
			})
			return err
		}
		given := func(id string, seconds int) (holders.Key, holders.Allocation) {
			return holders.Key{Resource: port, ID: id}, holders.Allocation{At: begin.Add(time.Duration(seconds) * time.Second), Nodes: []string{"node-" + id}}
		}
		must.Succeed(t, add(nil, "a", "b"))
		time.Sleep(time.Second) // fake time
		must.Succeed(t, add(nil, "b"))
		last := undo
		compare.ErrorIs(t, "add", os.ErrInvalid, add(os.ErrInvalid, "a", "c"))
		copied := a.All()
		clear(copied)
		want := map[holders.Key]holders.Allocation{}
		for id, at := range map[string]int{"a": 0, "b": 1} {
			key, allocation := given(id, at)
			want[key] = allocation
		}
		compare.Values(t, "allocations", want, a.All())
		<-a.Added()
		select {
		case <-a.Added():
			t.Error("found a second element, want one for all allocations")
		default:
		}
		time.Sleep(time.Second) // fake time
		must.Succeed(t, add(nil, "a", "c"))
		undo()
		compare.Values(t, "allocations after undo", want, a.All())
		must.Succeed(t, add(nil, "b"))
		if last(); !a.All()[holders.Key{Resource: port, ID: "b"}].At.Equal(time.Now()) {
			t.Errorf("found %v after undo of an earlier allocation, want the newest one", a.All())
		}
	})
}

// An allocation counts even while it's still being checked, because All waits for it.
func TestAllocationsWhileChecking(t *testing.T) {
	a, checking, all := holders.NewAllocations(), make(chan bool), make(chan int)
	go func() {
		<-checking
		all <- len(a.All())
	}()
	_, _ = a.Add(port, func() (map[string][]string, error) {
		checking <- true
		return map[string][]string{"a": nil}, nil
	})
	compare.Equal(t, "allocations", 1, <-all)
}
