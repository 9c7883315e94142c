package slices_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
	"k8s.io/dynamic-resource-allocation/resourceslice"

	"b-com.com/accelerator-device-plugin/dra/slices"
	"b-com.com/accelerator-device-plugin/internal/latest"
	"b-com.com/accelerator-device-plugin/internal/metrics"
	"b-com.com/accelerator-device-plugin/inventory"
	"b-com.com/accelerator-device-plugin/programming"
	"b-com.com/accelerator-device-plugin/test/compare"
	"b-com.com/accelerator-device-plugin/test/eventtest"
	"b-com.com/accelerator-device-plugin/test/task"
)

// rig runs a Publisher in a bubble, whose time begins at 0.
type rig struct {
	*testing.T
	*slices.Publisher
	snapshots *latest.Value[inventory.Snapshot]
	stored    *latest.Value[[]programming.Stored]
	start     time.Time
	logs      *observer.ObservedLogs

	mu        sync.Mutex
	published []string      // "TIME: DEVICE DEVICE!", with an exclamation mark if it has a taint
	block     chan struct{} // the next Publish blocks until it is closed; nil: none does
	err       error         // of the next Publish
}

func (r *rig) Latest() (inventory.Snapshot, <-chan struct{}) { return r.snapshots.Load() }

func newRig(t *testing.T, storesTaints func(context.Context) bool) *rig {
	core, logs := eventtest.Observed(t)
	r := &rig{T: t, snapshots: latest.New(inventory.Snapshot{}), stored: latest.New[[]programming.Stored](nil), start: time.Now(), logs: logs}
	r.Publisher = slices.NewPublisher(slices.Config{
		Options: slices.Options{Node: "n", Effect: "NoExecute"}, Devices: r, Stored: r.stored.Load, StoresTaints: storesTaints,
		Publish: r.publish, Log: zap.New(core), Metrics: metrics.New("test"),
	})
	return r
}

// run runs the Publisher until the end of the test, or until end is called.
func (r *rig) run() (end func()) {
	end = task.Run(r.T, r.Publisher.Run)
	synctest.Wait()
	return end
}

// running calls f in a bubble, while the Publisher runs.
func running(t *testing.T, f func(*rig)) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		r.run()
		f(r)
	})
}

func (r *rig) publish(ctx context.Context, resources resourceslice.DriverResources) error {
	line := fmt.Sprint(time.Since(r.start), ":")
	for _, s := range resources.Pools["n"].Slices {
		for _, d := range s.Devices {
			line += " " + d.Name
			if len(d.Taints) > 0 {
				line += "!"
			}
		}
	}
	r.mu.Lock()
	r.published = append(r.published, line)
	block, err := r.block, r.err
	r.mu.Unlock()
	if block != nil {
		select {
		case <-block:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return err
}

// snapshot stores a complete snapshot.
func (r *rig) snapshot(devices ...*inventory.Device) {
	r.snapshots.Update(func(s inventory.Snapshot) inventory.Snapshot {
		return inventory.Snapshot{Version: s.Version + 1, Devices: devices, Complete: true, Hinted: time.Now().Add(-time.Millisecond)}
	})
}

func (r *rig) after(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func (r *rig) want(lines ...string) {
	r.Helper()
	synctest.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	compare.Values(r, "publications", lines, r.published)
	r.published = nil
}

var (
	wellA = device("3b:00.0", inventory.Healthy)
	badA  = fault("afu-dead")
	wellB = device("4b:00.0", inventory.Healthy)
	badB  = device("4b:00.0", inventory.Unhealthy, "cordoned")
)

const a, b = " pci-0000-3b-00-0", " pci-0000-4b-00-0"

func TestFirst(t *testing.T) {
	running(t, func(r *rig) {
		r.after(time.Hour)
		r.snapshots.Store(inventory.Snapshot{Version: 1, Devices: []*inventory.Device{wellA}})
		r.Republish()
		r.after(time.Hour)
		r.want()
		r.snapshot(wellA, wellB)
		r.want("2h0m0s:" + a + b)
		// Later snapshots need not be complete: the inventory keeps the devices of slow cards.
		r.snapshots.Store(inventory.Snapshot{Version: 3, Devices: []*inventory.Device{wellA}})
		r.after(time.Hour)
		r.want("2h0m0.05s:" + a)
	})
}

func TestBurst(t *testing.T) {
	running(t, func(r *rig) {
		r.snapshot(wellA, wellB)
		r.after(time.Hour)
		r.want("0s:" + a + b)
		r.snapshot(badA, wellB) // at once
		r.want("1h0m0s:" + a + "!" + b)
		for range 24 { // changes at each millisecond
			r.after(time.Millisecond)
			r.snapshot(badA, badB)
			r.after(time.Millisecond)
			r.snapshot(wellA, badB)
		}
		r.snapshot(badA)
		r.want() // it is 48 ms later
		r.after(2 * time.Millisecond)
		r.want("1h0m0.05s:" + a + "!")
		r.after(49 * time.Millisecond)
		r.snapshot(wellA)
		r.after(time.Hour)
		r.want("1h0m0.1s:" + a)
	})
}

// A snapshot that does not change the slices is not published, even if devices have changed.
func TestUnchanged(t *testing.T) {
	running(t, func(r *rig) {
		r.snapshot(wellA)
		r.want("0s:" + a)
		for range 100 {
			r.after(time.Second)
			same := *wellA
			same.Nodes = []string{fmt.Sprint("dfl-port.", time.Now().Second())}
			unoffered := *wellB
			unoffered.OfferedAs = ""
			r.snapshot(&same, &unoffered)
		}
		r.snapshot(badA)
		r.snapshot(wellA)
		r.want()
	})
}

func TestRepublish(t *testing.T) {
	running(t, func(r *rig) {
		r.snapshot(badA)
		r.want("0s:" + a + "!")
		r.after(time.Hour)
		r.Republish()
		r.want("1h0m0s:" + a + "!")
		for range 10 {
			r.Republish()
		}
		r.after(time.Hour)
		r.want("1h0m0.05s:" + a + "!")
	})
}

func TestWithoutTaints(t *testing.T) {
	running(t, func(r *rig) {
		r.snapshot(wellA, badB)
		r.want("0s:" + a + b + "!")
		r.WithoutTaints()
		r.after(time.Second)
		r.want("50ms:" + a)
		r.WithoutTaints()
		r.snapshot(wellA, wellB)
		r.after(time.Second)
		r.want("1s:" + a + b)
	})
}

// While Publish blocks, changes are collected.
func TestBlocked(t *testing.T) {
	running(t, func(r *rig) {
		r.block = make(chan struct{})
		r.snapshot(wellA)
		for range 10 {
			r.after(time.Second)
			r.snapshot(badA)
			r.snapshot(wellA, wellB)
		}
		r.want("0s:" + a)
		close(r.block)
		r.after(time.Second)
		r.want("10.05s:" + a + b)
	})
}

func TestEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		r.block = make(chan struct{})
		end := r.run()
		r.snapshot(wellA)
		synctest.Wait()
		end() // while Publish blocks
		r.block, r.err = nil, errors.New("no node name")
		compare.ErrorIs(t, "Run", r.err, r.Publisher.Run(t.Context()))
	})
}

func TestLog(t *testing.T) {
	running(t, func(r *rig) {
		r.snapshot(wellA, badB)
		r.after(time.Second)
		r.snapshot(badA, badB)
		r.after(time.Second)
		r.snapshot(badA, wellB)
		r.after(time.Second)
		r.snapshot(wellB)
		r.after(time.Second)
		r.snapshot(badB)
		r.after(time.Second)
		r.Republish()
		synctest.Wait()
		var got []map[string]any
		for _, line := range r.logs.All() {
			got = append(got, line.ContextMap())
		}
		line := func(rev, count, tainted int, more map[string]any) map[string]any {
			all := map[string]any{
				"event": "slices.published", "resource": "accelerator.b-com.com", "rev": uint64(rev), "count": int64(count), "slices": int64(1), "tainted": int64(tainted),
			}
			maps.Copy(all, more)
			return all
		}
		type ids = []any
		want := []map[string]any{
			line(1, 2, 1, map[string]any{"unhealthy": ids{"4b:00.0"}}),
			line(2, 2, 2, map[string]any{"devices": ids{"3b:00.0"}, "unhealthy": ids{"3b:00.0"}, "latency_ms": 1.0}),
			line(3, 2, 1, map[string]any{"devices": ids{"4b:00.0"}, "latency_ms": 1.0}),
			line(4, 1, 0, map[string]any{"devices": ids{"3b:00.0"}, "gone": ids{"3b:00.0"}, "latency_ms": 1.0}),
			line(5, 1, 1, map[string]any{"devices": ids{"4b:00.0"}, "unhealthy": ids{"4b:00.0"}, "latency_ms": 1.0}),
			line(5, 1, 1, map[string]any{"unhealthy": ids{"4b:00.0"}}),
		}
		compare.Values(t, "log", want, got)
	})
}

// A change of the store is published like one of a device. A node without devices has an empty slice.
func TestStored(t *testing.T) {
	running(t, func(r *rig) {
		r.snapshot()
		r.after(time.Second)
		r.stored.Store([]programming.Stored{{InterfaceID: "69528db6eb31577a8c3668f9faa081f6", ID: "d8424dc4a4a3c413f89e433683f9040b"}})
		r.after(time.Second)
		r.stored.Store(nil)
		r.want("0s:", "1s: afu-d8424dc4a4a3c413f89e433683f9040b-69528db6eb31577a", "2s:")
		if lines := r.logs.TakeAll(); len(lines) != 3 || fmt.Sprint(lines[1].ContextMap()["devices"]) != "[afu-d8424dc4a4a3c413f89e433683f9040b-69528db6eb31577a]" {
			t.Errorf("log: found %v, want three lines, the second one with the bitstream", lines)
		}
	})
}

// Whether the API server stores taints is known before the first publication with one. It is asked once.
func TestStoresTaints(t *testing.T) {
	for _, stores := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			asked := 0
			var r *rig
			r = newRig(t, func(context.Context) bool {
				asked++
				time.Sleep(time.Second)
				r.snapshot(badA, badB)
				return stores
			})
			r.run()
			r.snapshot(wellA)
			r.after(time.Second)
			r.snapshot(badA, wellB)
			r.after(2 * time.Second)
			r.snapshot(wellA, badB)
			r.after(time.Second)
			want := []string{"0s:" + a, "2s:" + a + "!" + b + "!", "3s:" + a + b + "!"}
			if !stores {
				want = []string{"0s:" + a, "2s:", "3s:" + a}
			}
			r.want(want...)
			compare.Equal(t, "times asked", 1, asked)
		})
	}
}
