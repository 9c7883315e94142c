package driver_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/dynamic-resource-allocation/kubeletplugin"
	"k8s.io/dynamic-resource-allocation/resourceslice"

	"b-com.com/accelerator-device-plugin/internal/logevent"
	"b-com.com/accelerator-device-plugin/inventory"
	"b-com.com/accelerator-device-plugin/test/compare"
)

// record contains the times of calls since the last take.
type record struct {
	mu    sync.Mutex
	start time.Time
	lines []string
}

func (r *record) add(text string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lines = append(r.lines, time.Since(r.start).String()+text)
}

func (r *record) take() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	lines := r.lines
	r.start, r.lines = time.Now(), nil
	return lines
}

// Health is reported at each change and every 10 s, but not while the inventory hangs.
func TestHealth(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil, "", claims{})
		r.devices.Store(inventory.Snapshot{})
		ctx, cancel := context.WithCancel(t.Context())
		reports, ended := make(chan kubeletplugin.DeviceHealthReport), make(chan error, 1)
		go func() { ended <- r.WatchHealthStatus(ctx, reports) }()
		got := record{start: time.Now()}
		go func() {
			for report := range reports {
				got.add(fmt.Sprint(": ", len(report.Devices)))
			}
		}()
		want := func(after time.Duration, lines ...string) {
			t.Helper()
			time.Sleep(after)
			synctest.Wait()
			compare.Values(t, "reports", lines, got.take())
		}
		want(25 * time.Second) // no snapshot yet
		r.devices.set(well("3b:00.0"))
		want(0, "0s: 1")
		want(10*time.Second, "5s: 1")
		r.devices.set(well("3b:00.0"), broken("4b:00.0"))
		want(10*time.Second, "0s: 2", "5s: 2")
		r.devices.hangs.Store(true)
		r.devices.set()
		want(time.Minute)
		r.devices.hangs.Store(false)
		want(15*time.Second, "5s: 0", "15s: 0")
		cancel()
		compare.NoError(t, "WatchHealthStatus", <-ended)
		close(reports)

		// The reader may be gone.
		ctx, cancel = context.WithCancel(t.Context())
		go func() { ended <- r.WatchHealthStatus(ctx, make(chan kubeletplugin.DeviceHealthReport)) }()
		synctest.Wait()
		cancel()
		compare.NoError(t, "WatchHealthStatus", <-ended)
	})
}

func stored(name string, devices ...resourceapi.Device) *resourceapi.ResourceSlice {
	return &resourceapi.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: resourceapi.ResourceSliceSpec{Devices: devices}}
}

func TestRestore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil, "", claims{})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		got := record{start: time.Now()}
		go func() {
			r.Restore(ctx, func(context.Context) { got.add("") })
			close(ended)
		}()
		want := func(what string, after time.Duration, times ...string) {
			t.Helper()
			time.Sleep(after)
			synctest.Wait()
			compare.Values(t, what+": attempts", times, got.take())
		}
		a, b := resourceapi.Device{Name: "a"}, resourceapi.Device{Name: "b"}
		first, second := stored("00000-x-1", a), stored("00001-x-2", b)

		r.Stored(first) // of the driver before
		want("nothing is wanted yet", time.Hour)
		r.Want(resourceslice.Slice{Devices: []resourceapi.Device{a}}, resourceslice.Slice{Devices: []resourceapi.Device{b}})
		time.Sleep(20 * time.Millisecond)
		r.Stored(second)
		want("written at once", time.Hour)

		r.Deleted(first, true)
		r.Deleted(second, false)
		want("deleted, and not written", 2*time.Second, "50ms", "150ms", "350ms", "750ms", "1.55s")
		r.Stored(first)
		r.Stored(second)
		want("written", time.Hour)
		r.Deleted(second, true)
		want("deleted once more", 100*time.Millisecond, "50ms")
		r.Stored(second)
		compare.Equal(t, "lines about deletions", 3, r.count(logevent.SlicesDeleted))

		r.Stored(stored("00000-x-3", a)) // of another driver, which deletes it
		want("one too many", time.Hour)
		r.Deleted(stored("00000-x-3", a), true)
		compare.Equal(t, "lines about deletions", 3, r.count(logevent.SlicesDeleted))
		want("the other one is deleted", time.Hour)

		r.Stored(stored("00000-x-1", b))
		want("other content", 70*time.Second, "30s", "1m0s")
		r.Deleted(first, true)
		want("deleted besides", 300*time.Millisecond, "200ms")
		r.Stored(first)
		want("as wanted", time.Hour)

		for range 100 { // deleted each time that it is written
			r.Deleted(first, true)
			time.Sleep(60 * time.Millisecond)
			r.Stored(first)
			time.Sleep(time.Second)
		}
		synctest.Wait()
		if n := len(got.take()); n < 20 || n > 32 {
			t.Errorf("deleted 100 times in 106 s: found %d attempts, want about 30", n)
		}
		cancel()
		<-ended
	})
}
