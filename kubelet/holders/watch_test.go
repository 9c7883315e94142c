package holders_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
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

// long makes a checkpoint take tens of milliseconds to parse.
func long(file string) string {
	return strings.Replace(file, `"DeviceIDs"`, `"Unknown":[`+strings.Repeat(`{"a":[1,2]},`, 300_000)+`0],"DeviceIDs"`, 1)
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

// A query that ends while Ending reads the checkpoint moves an entry from the seen ones to the state.
func TestEndingDuringQuery(t *testing.T) {
	r := newRig(t)
	r.pids(t, "u1")("2")
	s := holders.New(r.cfg)
	s.Ask(t.Context())
	r.write(t, fileOf(t, "u1", port, "3b:00.0", "n"))
	s.Ending(port, []string{"5e:00.0"})
	r.write(t, fileOf(t, "u2", port, "5e:00.0", "m"))
	finish := r.askBlocked(t, s)
	r.write(t, long(fileOf(t, "u2", port, "5e:00.0", "m")))
	ending := make(chan []string)
	go func() { ending <- s.Ending(port, []string{"3b:00.0"}) }()
	time.Sleep(50 * time.Millisecond) // Ending is parsing the file
	finish()
	compare.Values(t, "ending", []string{"u1"}, <-ending)
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
				r.cfg.Node, r.cfg.Confirm = "node", 10*time.Millisecond
				r.pids(t, "u1")("2")
				r.write(t, fileOf(t, "u1", port, "3b:00.0", "n"))
				r.Hold("ns", pod, "main", port, "3b:00.0")
				s := holders.New(r.cfg)
				s.Ask(t.Context())
				if seen {
					s.Ending(port, []string{"5e:00.0"})
				}
				r.Release("ns", pod)
				r.Hold("ns", pod, "main", "example.com/nothing", "x")
				time.Sleep(20 * time.Millisecond)
				r.started(t, 0)
				time.Sleep(20 * time.Millisecond)
				r.write(t, `{"Data":{}}`)
				for i := range 10 {
					time.Sleep(20 * time.Millisecond)
					if len(s.Ask(t.Context()).Of["3b:00.0"]) != 1 {
						t.Fatalf("query %d: found no holding", i)
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
		time.Sleep(time.Duration(random.IntN(5)) * time.Millisecond)
		s.Ending(port, []string{"86:00.0"}) // the kubelet asks for another device
		p.set("2")
		former[id] = p
		if random.IntN(2) == 0 {
			r.write(t, `{"Data":{}}`)
		}
	}
}
