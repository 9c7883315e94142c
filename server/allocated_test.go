package server_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"go.uber.org/zap"

	"b-com.com/accelerator-device-plugin/cdi"
	"b-com.com/accelerator-device-plugin/internal/metrics"
	"b-com.com/accelerator-device-plugin/inventory"
	"b-com.com/accelerator-device-plugin/server"
	"b-com.com/accelerator-device-plugin/sim/simkubelet"
	"b-com.com/accelerator-device-plugin/test/compare"
	"b-com.com/accelerator-device-plugin/test/must"
	"b-com.com/accelerator-device-plugin/test/patient"
)

// An allocation counts for all callers even before the kubelet has the response.
func TestAllocatedAtOnce(t *testing.T) {
	const calls = 50
	list := ports(calls)
	r, k := started(t, list...)
	var tasks sync.WaitGroup
	for _, d := range list {
		tasks.Go(func() {
			compare.NoError(t, "Allocate", compare.ErrorOf(k.Allocate(r.ctx, resource, d.ID)))
			if !slices.Contains(r.Allocated()[resource], d.ID) {
				t.Errorf("allocated: found no %s, want it: Allocate has returned", d.ID)
			}
		})
	}
	tasks.Wait()
	compare.Equal(t, "allocated", calls, len(r.Allocated()[resource]))
}

// An allocation already counts while Allocate is waiting for the disk, so a device that moves to another resource in
// the meantime isn't free. A rejected device doesn't count.
func TestAllocatedWhileTheDiskIsSlow(t *testing.T) {
	dir := t.TempDir()
	spec := must.Value(cdi.Open(dir, "fpga.intel.com/fpga", "/dev"))(t)
	defer spec.Close()
	waits, release := make(chan struct{}), make(chan struct{})
	cfg := server.Defaults()
	cfg.Metrics = metrics.New("test")
	cfg.KubeletDir, cfg.CDI = t.TempDir(), spec
	slow := sync.OnceFunc(func() { close(waits); <-release })
	cfg.Injected = func(context.Context, map[string][]string) error { slow(); return nil }
	s := server.New(cfg, &devices{}, zap.NewNop())
	changed := port("a")
	changed.Reasons = []string{inventory.ReasonNodeChanged}
	allocate := s.Offer(t.Context(), resource, changed, port("b"))

	answered := make(chan error, 1)
	go func() { answered <- allocate("a") }()
	select {
	case err := <-answered:
		t.Fatalf("Allocate returned %v before its nodes were recorded", err)
	case <-waits:
	}
	want := map[string][]string{resource: {"a"}}
	compare.Values(t, "allocated while Allocate waits", want, s.Allocated())
	close(release)
	must.Succeed(t, <-answered)
	must.Succeed(t, os.Remove(dir+"/fpga.intel.com-fpga.json"), os.Mkdir(dir+"/fpga.intel.com-fpga.json", 0o700))
	compare.Error(t, "Allocate of a device that is not in the spec", "", allocate("b"))
	compare.Values(t, "allocated", want, s.Allocated())
}

// A rejected request doesn't change the allocations.
func TestAllocatedAfterRefusals(t *testing.T) {
	cfg := server.Defaults()
	cfg.Metrics = metrics.New("test")
	cfg.KubeletDir = t.TempDir()
	s := server.New(cfg, &devices{}, zap.NewNop())
	allocate := s.Offer(t.Context(), resource, port("a"), port("b"), sick("d"))
	must.Succeed(t, allocate("b"))
	before := cfg.Allocations.All()
	for _, ids := range [][]string{{"a", "z"}, {"a", "d"}, {"b", "b"}, {}} {
		compare.Error(t, fmt.Sprintf("Allocate of %q", ids), "", allocate(ids...))
	}
	compare.Values(t, "allocated", before, cfg.Allocations.All())
}

// Refresh resends each resource's latest list without logging it, which makes the kubelet write its checkpoint. Without
// a stream, it doesn't send anything.
func TestRefresh(t *testing.T) {
	r := newRig(t, nil)
	k := r.begin(simkubelet.Behaviour{}, port("a"), as(otherResource, port("b")))
	for _, name := range []string{resource, otherResource} {
		must.Value(k.AwaitList(r.ctx, name, func(l simkubelet.List) bool { return l.Number == 1 }))(t)
	}
	r.awaitReady()
	checkpoint := filepath.Join(r.cfg.KubeletDir, simkubelet.Checkpoint)
	for n := range 3 {
		written := must.Value(os.Stat(checkpoint))(t)
		if !r.Refresh() {
			t.Error("Refresh: found false, want true: streams are open")
		}
		for _, name := range []string{resource, otherResource} {
			must.Value(k.AwaitList(r.ctx, name, func(l simkubelet.List) bool { return l.Number == n+2 && len(l.Devices) == 1 }))(t)
		}
		again := must.Value(os.Stat(checkpoint))(t)
		if os.SameFile(written, again) && written.ModTime().Equal(again.ModTime()) {
			t.Errorf("refresh %d: the checkpoint is not written again", n)
		}
	}
	compare.Equal(t, "list.sent: lines", 2, len(r.sent(0)))
	k.Stop()
	patient.Await(t, "the end of the kubelet", func() error {
		if r.Refresh() {
			return errors.New("Refresh: found true, want false")
		}
		return nil
	})
}
