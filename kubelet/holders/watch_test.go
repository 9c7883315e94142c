package holders_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/zap"

	"b-com.com/accelerator-device-plugin/kubelet/holders"
	"b-com.com/accelerator-device-plugin/test/compare"
	"b-com.com/accelerator-device-plugin/test/must"
	"b-com.com/accelerator-device-plugin/test/patient"
)

// pids makes a pod's cgroup and returns a function that sets its number of processes.
func (r *rig) pids(t *testing.T, uid string) (set func(count string)) {
	t.Helper()
	if r.cfg.CgroupRoot == "" {
		r.cfg.CgroupRoot = t.TempDir()
	}
	current := filepath.Join(r.cfg.CgroupRoot, "pids/kubepods/besteffort/pod"+uid+"/pids.current")
	must.Succeed(t, os.MkdirAll(filepath.Dir(current), 0o755))
	return func(count string) { t.Helper(); must.Succeed(t, os.WriteFile(current, []byte(count+"\n"), 0o600)) }
}

// askBlocked starts a query that blocks while it looks for the processes of u1, whose entry must have been seen and
// removed. The pod has processes.
func (r *rig) askBlocked(t *testing.T, s *holders.Source) (finish func()) {
	t.Helper()
	current := filepath.Join(r.cfg.CgroupRoot, "pids/kubepods/besteffort/podu1/pids.current")
	must.Succeed(t, os.Remove(current), syscall.Mkfifo(current, 0o600))
	asked := make(chan struct{})
	go func() { s.Ask(t.Context()); close(asked) }()
	var pipe *os.File
	patient.Await(t, "the query", func() (err error) {
		pipe, err = os.OpenFile(current, os.O_WRONLY|syscall.O_NONBLOCK, 0)
		return err
	})
	must.Succeed(t, os.WriteFile(current+"1", []byte("2\n"), 0o600), os.Rename(current+"1", current))
	return func() {
		must.Value(pipe.WriteString("2\n"))(t)
		must.Succeed(t, pipe.Close())
		<-asked
	}
}

// Watch reports each new entry of another plugin once, and none of ours.
func TestWatch(t *testing.T) {
	r := newRig(t)
	allocated := make(chan struct{}, 10)
	ctx, cancel := context.WithCancel(t.Context())
	var task sync.WaitGroup
	defer task.Wait()
	defer cancel()
	s := holders.New(r.cfg)
	task.Go(func() { s.Watch(ctx, zap.NewNop(), func() { allocated <- struct{}{} }) })
	seen := func(uid string) {
		t.Helper()
		r.write(t, fileOf(t, uid, "example.com/gpu", "gpu-0", "/dev/gpu0"))
		select {
		case <-allocated:
		case <-time.After(patient.Limit):
			t.Fatalf("%s: not reported", uid)
		}
	}
	seen("u1")
	// Not reported: our own entry, a file that can't be parsed, no entries.
	for _, text := range []string{fileOf(t, "u2", port, "3b:00.0", "n"), "{", `{"Data":{}}`} {
		r.write(t, text)
		patient.Await(t, "our entry", func() error {
			if !s.Sees("3b:00.0") {
				return errors.New("not seen yet")
			}
			return nil
		})
	}
	seen("u3")
	r.write(t, fileOf(t, "u3", "example.com/gpu", "gpu-0", "/dev/gpu0")) // the same again
	seen("u4")
	compare.Equal(t, "further reports", 0, len(allocated))
}

// A pod is force-deleted before the first query after its allocation. The kubelet then removes its entry: because it
// allocates another device, or because the query makes it write the file.
func TestForceDeletedAtOnce(t *testing.T) {
	for _, by := range []string{"another allocation", "the query", "another plugin's allocation"} {
		t.Run(by, func(t *testing.T) {
			r := newRig(t)
			r.cfg.CgroupRoot = t.TempDir()
			current := filepath.Join(r.cfg.CgroupRoot, "pids/kubepods/besteffort/podu1/pids.current")
			must.Succeed(t, os.MkdirAll(filepath.Dir(current), 0o755), os.WriteFile(current, []byte("2\n"), 0o600))
			other := fileOf(t, "u2", port, "5e:00.0", "m")
			if by == "the query" {
				r.cfg.Refresh = func() bool { r.write(t, other); return true }
			}
			s := holders.New(r.cfg)
			s.Ask(t.Context())
			switch by {
			case "the query":
				r.write(t, fileOf(t, "u1", port, "3b:00.0", "n"))
			case "another allocation":
				r.write(t, fileOf(t, "u1", port, "3b:00.0", "n"))
				s.Ending(port, []string{"5e:00.0"})
				r.write(t, other)
				compare.Values(t, "ending before a query", []string{"u1"}, s.Ending(port, []string{"3b:00.0"}))
			case "another plugin's allocation":
				ctx, cancel := context.WithCancel(t.Context())
				var task sync.WaitGroup
				allocated := make(chan struct{}, 1)
				task.Go(func() { s.Watch(ctx, zap.NewNop(), func() { allocated <- struct{}{} }) })
				r.write(t, fileOf(t, "u1", port, "3b:00.0", "n"))
				patient.Await(t, "the first entry", func() error {
					if !s.Sees("3b:00.0") {
						return errors.New("not seen yet")
					}
					return nil
				})
				r.write(t, fileOf(t, "u2", "example.com/gpu", "gpu-0", "/dev/gpu0"))
				<-allocated
				cancel()
				task.Wait()
			}
			for range 2 {
				all := s.Ask(t.Context()).Of["3b:00.0"]
				if len(all) != 1 {
					t.Fatalf("found %d holdings, want one", len(all))
				}
				compare.Values(t, "nodes", []string{"n"}, all[0].Nodes)
				compare.Values(t, "ending", []string{"u1"}, s.Ending(port, []string{"3b:00.0"}))
			}
			must.Succeed(t, os.WriteFile(current, []byte("0\n"), 0o600))
			compare.Empty(t, "ending after its end", s.Ending(port, []string{"3b:00.0"}))
			compare.Equal(t, "holdings after its end", 0, len(s.Ask(t.Context()).Of["3b:00.0"]))
		})
	}
}

// A query doesn't forget the entries that are seen while it is in progress.
func TestSeenDuringQuery(t *testing.T) {
	r := newRig(t)
	r.pids(t, "u1")("2")
	s := holders.New(r.cfg)
	s.Ask(t.Context())
	r.write(t, fileOf(t, "u1", port, "3b:00.0", "n"))
	s.Ending(port, []string{"5e:00.0"})
	r.write(t, `{"Data":{}}`)
	finish := r.askBlocked(t, s)
	r.write(t, fileOf(t, "u2", port, "5e:00.0", "m"))
	s.Ending(port, []string{"5e:00.1"})
	finish()
	r.pids(t, "u2")("2") // its container starts
	r.write(t, `{"Data":{}}`)
	compare.Values(t, "ending", []string{"u2"}, s.Ending(port, []string{"5e:00.0"}))
	compare.Equal(t, "holdings", 1, len(s.Ask(t.Context()).Of["5e:00.0"]))
	compare.Equal(t, "remembered after the query", false, s.Sees("3b:00.0") || s.Sees("5e:00.0"))
}

// At its start, a daemon reads the file before the first query. The kubelet may remove an entry in between.
func TestRemovedAfterRecord(t *testing.T) {
	r := newRig(t)
	r.pids(t, "u1")("2")
	r.write(t, fileOf(t, "u1", port, "3b:00.0", "n"))
	s := holders.New(r.cfg)
	_, _ = s.Record(t.Context())
	r.write(t, fileOf(t, "u2", port, "5e:00.0", "m"))
	compare.Values(t, "ending", []string{"u1"}, s.Ending(port, []string{"3b:00.0"}))
	compare.Equal(t, "holdings", 1, len(s.Ask(t.Context()).Of["3b:00.0"]))
}

// The kubelet loses its checkpoint, which has been read since the last query.
func TestLostCheckpointSeen(t *testing.T) {
	for _, seen := range []bool{false, true} {
		for _, pod := range []string{"p", "s-node"} {
			t.Run(pod+map[bool]string{true: ", seen"}[seen], func(t *testing.T) {
				r := newRig(t)
				r.cfg.Node, r.cfg.Confirm = "node", time.Millisecond
				r.pids(t, "u1")("2")
				r.write(t, fileOf(t, "u1", port, "3b:00.0", "n"))
				r.Hold("ns", pod, "main", port, "3b:00.0")
				s := holders.New(r.cfg)
				s.Ask(t.Context())
				if seen { // in another version of the file
					r.write(t, fileOf(t, "u1", port, "3b:00.0", "n"))
					s.Ending(port, []string{"5e:00.0"})
				}
				r.Release("ns", pod)
				r.Hold("ns", pod, "main", "example.com/nothing", "x")
				r.started(t, 0)
				r.write(t, `{"Data":{}}`)
				later := time.Now().Add(10 * time.Millisecond) // file times may be behind the clock
				must.Succeed(t, os.Chtimes(r.path, later, later))
				for began := time.Now(); time.Since(began) < 50*r.cfg.Confirm; {
					if len(s.Ask(t.Context()).Of["3b:00.0"]) != 1 {
						t.Fatalf("found no holding after %v", time.Since(began))
					}
				}
			})
		}
	}
}

// A force-deleted pod that the state knows lingers from the first query on, even if its entry has been seen again.
func TestLingersAtOnce(t *testing.T) {
	r := newRig(t)
	r.cfg.DRA = true // no refreshes, which would make it ask again anyway
	r.pids(t, "u1")("2")
	r.write(t, fileOf(t, "u1", port, "3b:00.0", "n"))
	s := holders.New(r.cfg)
	s.Ask(t.Context())
	r.write(t, fileOf(t, "u1", port, "3b:00.0", "n"))
	s.Ending(port, []string{"5e:00.0"})
	r.write(t, fileOf(t, "u2", "example.com/gpu", "gpu-0", "/dev/gpu0"))
	compare.Equal(t, "next query", time.Second, s.Ask(t.Context()).Again)
}

// Whatever a query, Watch and the kubelet do at the same time, the kubelet never gets a device whose former pod has
// processes.
func TestForceDeletedAtRandom(t *testing.T) {
	r := newRig(t)
	r.cfg.CgroupRoot, r.cfg.Confirm = t.TempDir(), time.Millisecond
	s := holders.New(r.cfg)
	ctx, cancel := context.WithCancel(t.Context())
	var tasks sync.WaitGroup
	defer tasks.Wait()
	defer cancel()
	tasks.Go(func() { s.Watch(ctx, zap.NewNop(), func() {}) })
	tasks.Go(func() {
		for ctx.Err() == nil {
			s.Ask(ctx)
		}
	})
	type pod struct {
		uid  string
		set  func(count string)
		ends int // the step in which its processes end
	}
	random, former := rand.New(rand.NewPCG(1, 2)), map[string]pod{} // by device
	for step := range 150 {
		id := []string{"3b:00.0", "5e:00.0"}[random.IntN(2)]
		if p, found := former[id]; found && p.ends <= step {
			p.set("0")
			delete(former, id)
		}
		ending := s.Ending(port, []string{id})
		if p, found := former[id]; found {
			if !slices.Equal(ending, []string{p.uid}) {
				t.Fatalf("step %d: found %v ending, want %s", step, ending, p.uid)
			}
			continue
		}
		p := pod{fmt.Sprint("u", step), r.pids(t, fmt.Sprint("u", step)), step + random.IntN(10)}
		r.write(t, fileOf(t, p.uid, port, id, "n")) // without the former pods, which have been force-deleted
		s.Ending(port, []string{"86:00.0"})         // the kubelet asks for another device
		p.set("2")
		former[id] = p
		if random.IntN(2) == 0 {
			r.write(t, `{"Data":{}}`)
		}
	}
}
