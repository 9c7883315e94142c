package server_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/zap"

	"b-com.com/accelerator-device-plugin/internal/metrics"
	"b-com.com/accelerator-device-plugin/internal/sim/simkubelet"
	"b-com.com/accelerator-device-plugin/inventory"
	"b-com.com/accelerator-device-plugin/server"
	"b-com.com/accelerator-device-plugin/server/cdi"
)

const other = "b-com.com/other"

// newServer returns a server that is not run.
func newServer(t *testing.T) *server.Server {
	t.Helper()
	cfg := server.Defaults()
	cfg.Metrics = metrics.New("test")
	cfg.KubeletDir = t.TempDir()
	s := server.New(cfg, &devices{}, zap.NewNop())
	return s
}

// If no answer of the kubelet names a holder, an allocation counts for a minute.
func TestAllocationWithoutHolder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		allocate := s.Offer(t.Context(), resource, port("a"), port("b"), port("c"), sick("d"))
		allocateOther := s.Offer(t.Context(), other, port("a"))
		begin := time.Now()
		for _, step := range []struct {
			name     string
			at       time.Duration // since the beginning
			allocate func(ids ...string) error
			ids      []string
			refused  bool
			want     map[string][]string
		}{
			{name: "nothing yet", want: map[string][]string{}},
			{name: "two, sorted", allocate: allocate, ids: []string{"c", "b"}, want: map[string][]string{resource: {"b", "c"}}},
			{name: "the same id of another resource", at: 10 * time.Second, allocate: allocateOther, ids: []string{"a"},
				want: map[string][]string{resource: {"b", "c"}, other: {"a"}}},
			{name: "refused: unknown", at: 20 * time.Second, allocate: allocate, ids: []string{"a", "z"}, refused: true,
				want: map[string][]string{resource: {"b", "c"}, other: {"a"}}},
			{name: "refused: unhealthy", at: 20 * time.Second, allocate: allocate, ids: []string{"a", "d"}, refused: true,
				want: map[string][]string{resource: {"b", "c"}, other: {"a"}}},
			{name: "one of them again", at: 30 * time.Second, allocate: allocate, ids: []string{"b"},
				want: map[string][]string{resource: {"b", "c"}, other: {"a"}}},
			{name: "a minute", at: time.Minute, want: map[string][]string{resource: {"b", "c"}, other: {"a"}}},
			{name: "just over", at: time.Minute + 1, want: map[string][]string{resource: {"b"}, other: {"a"}}},
			{name: "refused: does not last longer", at: 75 * time.Second, allocate: allocate, ids: []string{"b", "b"}, refused: true,
				want: map[string][]string{resource: {"b"}}},
			{name: "a minute after the last time", at: 90 * time.Second, want: map[string][]string{resource: {"b"}}},
			{name: "over", at: 90*time.Second + 1, want: map[string][]string{}},
		} {
			time.Sleep(step.at - time.Since(begin)) // fake
			if step.allocate != nil {
				if err := step.allocate(step.ids...); (err != nil) != step.refused {
					t.Errorf("%s: %v, want refused %t", step.name, err, step.refused)
				}
			}
			if diff := cmp.Diff(step.want, s.Allocated()); diff != "" {
				t.Errorf("%s (-want +got):\n%s", step.name, diff)
			}
		}
	})
}

// The returned value belongs to the caller.
func TestAllocatedIsACopy(t *testing.T) {
	s := newServer(t)
	if err := s.Offer(t.Context(), resource, port("a"))("a"); err != nil {
		t.Fatal(err)
	}
	first := s.Allocated()
	first[resource][0] = "z"
	delete(first, resource)
	if diff := cmp.Diff(map[string][]string{resource: {"a"}}, s.Allocated()); diff != "" {
		t.Errorf("allocated (-want +got):\n%s", diff)
	}
}

// An allocation counts before the kubelet has the answer, for all callers.
func TestAllocatedAtOnce(t *testing.T) {
	const calls = 50
	list := ports(calls)
	r, k := started(t, list...)
	var tasks sync.WaitGroup
	for _, d := range list {
		tasks.Go(func() {
			if _, err := k.Allocate(r.ctx, resource, d.ID); err != nil {
				t.Error(err)
			}
			for _, id := range r.Allocated()[resource] {
				if id == d.ID {
					return
				}
			}
			t.Errorf("allocated: found no %s, want it: Allocate has returned", d.ID)
		})
	}
	tasks.Wait()
	if n := len(r.Allocated()[resource]); n != calls {
		t.Errorf("%d allocated, want %d", n, calls)
	}
}

// An allocation counts while Allocate waits for the disk, so a device that moves to another resource
// meanwhile is not free. A refused device does not count.
func TestAllocatedWhileTheDiskIsSlow(t *testing.T) {
	dir := t.TempDir()
	spec, err := cdi.Open(dir, "fpga.intel.com/fpga", "/dev")
	if err != nil {
		t.Fatal(err)
	}
	defer spec.Close()
	cfg := server.Defaults()
	cfg.Metrics = metrics.New("test")
	cfg.KubeletDir, cfg.CDI = t.TempDir(), spec
	s := server.New(cfg, &devices{}, zap.NewNop())
	allocate := s.Offer(t.Context(), resource, port("a"), port("b"))

	release := lockOut(t, filepath.Join(dir, ".fpga.intel.com-fpga.lock"))
	answered := make(chan error)
	go func() { answered <- allocate("a") }()
	want := map[string][]string{resource: {"a"}}
	for !cmp.Equal(want, s.Allocated()) {
		select {
		case err := <-answered:
			t.Fatalf("Allocate returned %v before the allocation counted", err)
		default:
			runtime.Gosched()
		}
	}
	release()
	if err := <-answered; err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.Remove(dir+"/fpga.intel.com-fpga.json"), os.Mkdir(dir+"/fpga.intel.com-fpga.json", 0o700)); err != nil {
		t.Fatal(err)
	}
	if err := allocate("b"); err == nil {
		t.Error("Allocate of a device that is not in the spec: found no error, want one")
	}
	if diff := cmp.Diff(want, s.Allocated()); diff != "" {
		t.Errorf("allocated (-want +got):\n%s", diff)
	}
}

// lockOut creates a lock file and holds its lock until release is called.
func lockOut(t *testing.T, path string) (release func()) {
	t.Helper()
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { file.Close() })
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	return func() { file.Close() }
}

// Allocations of a retired resource still count.
func TestAllocatedOutlivesItsResource(t *testing.T) {
	r := newRig(t, func(c *server.Config) { c.RetireAfter = 10 * time.Millisecond })
	r.devices.set(port("a"))
	k := r.kubelet(simkubelet.Behaviour{})
	r.run()
	r.awaitList(k)
	if _, err := k.Allocate(r.ctx, resource, "a"); err != nil {
		t.Fatal(err)
	}
	if _, err := k.Allocate(r.ctx, resource, "b"); err == nil {
		t.Fatal("Allocate of a device that is not listed: found no error, want one")
	}
	want := map[string][]string{resource: {"a"}}
	r.devices.set()
	r.awaitEvent("resource.retired", 1)
	if diff := cmp.Diff(want, r.Allocated()); diff != "" {
		t.Errorf("retired (-want +got):\n%s", diff)
	}
	r.devices.set(port("c"))
	r.awaitList(k)
	if diff := cmp.Diff(want, r.Allocated()); diff != "" {
		t.Errorf("offered again (-want +got):\n%s", diff)
	}
	r.stop()
	if diff := cmp.Diff(want, r.Allocated()); diff != "" {
		t.Errorf("stopped (-want +got):\n%s", diff)
	}
}

// An allocation counts until the answer to a later request names a holder, and the answer to a
// still later one names none.
func TestAllocationsCompare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		given := server.NewAllocations(time.Minute)
		cfg := server.Defaults()
		cfg.Metrics = metrics.New("test")
		cfg.KubeletDir, cfg.Allocations = t.TempDir(), given
		s := server.New(cfg, &devices{}, zap.NewNop())
		device := port("a")
		device.Nodes, device.NodeNumbers = []string{"dfl-port.0"}, []string{"245:0"}
		allocate := s.Offer(t.Context(), resource, device)
		begin := time.Now()
		at := func(seconds int) time.Time { return begin.Add(time.Duration(seconds) * time.Second) }
		counts := []server.Allocation{{Resource: resource, ID: "a", Nodes: []string{"dfl-port.0", "245:0"}}}
		for _, step := range []struct {
			name     string
			now      int // seconds since the beginning
			allocate bool
			asked    int // when the answer of this step was requested
			named    bool
			want     []server.Allocation
		}{
			{name: "requested before the allocation", now: 10, allocate: true, asked: 9, want: counts},
			{name: "not admitted yet", now: 11, asked: 11, want: counts},
			{name: "admitted", now: 13, asked: 13, named: true, want: counts},
			{name: "an older answer arrives late", now: 14, asked: 12, want: counts},
			{name: "admitted, for longer than the grace time", now: 200, asked: 200, named: true, want: counts},
			{name: "an older answer names a holder", now: 201, asked: 199, named: true, want: counts},
			{name: "the pod has ended", now: 202, asked: 202},
			{name: "an older answer names a holder late", now: 203, asked: 200, named: true},
			{name: "allocated again", now: 210, allocate: true, asked: 209, want: counts},
			{name: "the last pod is still named", now: 211, asked: 208, named: true, want: counts},
			{name: "not admitted for the grace time", now: 270, asked: 270, want: counts},
			{name: "nor after it", now: 271, asked: 271},
			{name: "admitted, allocated again before an answer without a holder", now: 300, allocate: true, asked: 301, named: true, want: counts},
			{name: "allocated again", now: 310, allocate: true, asked: 309, want: counts},
			{name: "not admitted yet, and a holder named before", now: 312, asked: 311, want: counts},
		} {
			time.Sleep(time.Until(at(step.now))) // fake
			if step.allocate {
				if err := allocate("a"); err != nil {
					t.Fatal(err)
				}
			}
			got := given.Compare(at(step.asked), func(r, id string) bool { return step.named && r == resource && id == "a" })
			if diff := cmp.Diff(step.want, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", step.name, diff)
			}
		}
	})
}

// Expired allocations are deleted without a call of Compare, by new allocations.
func TestAllocatedIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		for round := range 10 {
			var list []*inventory.Device
			for i := range 100 {
				list = append(list, port(fmt.Sprintf("%02d-%02d", round, i)))
			}
			allocate := s.Offer(t.Context(), resource, list...)
			for _, d := range list {
				if err := allocate(d.ID); err != nil {
					t.Fatal(err)
				}
			}
			if n := s.AllocationCount(); n != 100 {
				t.Errorf("round %d: found %d allocations, want 100", round, n)
			}
			time.Sleep(2 * time.Minute) // fake
		}
	})
}
