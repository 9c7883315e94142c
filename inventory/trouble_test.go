package inventory_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"

	"b-com.com/accelerator-device-plugin/internal/sysfs"
	"b-com.com/accelerator-device-plugin/inventory"
)

func TestReadTimeout(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newBench("dfl")
		f.set(cardA, good(0, 0))
		f.set(cardB, good(1, 0))
		r := start(t, testConfig, f)

		release := f.hang(cardA)
		r.hint(cardA)
		r.after(time.Second)
		f.set(cardB, good(1, 0, ap6))
		r.hint(cardB)
		r.want("A hangs, B breaks", map[string]string{"3b:00.0": "healthy[]", "0001:5e:00.0": "unhealthy[port-ap6]"})
		r.after(time.Second)
		r.want("A timed out", map[string]string{"3b:00.0": "unhealthy[read-timeout]", "0001:5e:00.0": "unhealthy[port-ap6]"})

		r.after(time.Hour)
		if n := f.reads[cardA]; n != 2 {
			t.Errorf("card that hangs was read %d times, want 2: never a second reading beside one that hangs", n)
		}
		release()
		r.after(0)
		r.want("A came back", map[string]string{"3b:00.0": "unhealthy[recovering=read-timeout]", "0001:5e:00.0": "unhealthy[port-ap6]"})
		r.after(10 * time.Second)
		r.want("A held", map[string]string{"3b:00.0": "healthy[]", "0001:5e:00.0": "unhealthy[port-ap6]"})
	})
}

// Cards that hang do not use up the readings that others need.
func TestManyHangingCardsDelayNobody(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newBench("dfl")
		for i := range 64 {
			address := fmt.Sprintf("0000:%02x:00.0", i)
			f.set(address, good(i, 0))
			if i != 63 {
				defer f.hang(address)()
			}
		}
		r := start(t, testConfig, f)
		r.after(16 * time.Second) // 63 cards in bounded rounds of 2 s
		r.want("all others hang", map[string]string{"3f:00.0": "healthy[]"})
		f.set("0000:3f:00.0", good(63, 0, ap6))
		r.after(5 * time.Second)
		r.want("all others hang, polled", map[string]string{"3f:00.0": "unhealthy[port-ap6]"})
	})
}

func TestFirstSnapshotWaitsForTheFirstScan(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newBench("dfl")
		f.set(cardA, good(0, 0))
		f.set(cardB, good(1, 0))
		release := f.hang(cardA)
		r := start(t, testConfig, f)
		if s, _ := r.Latest(); s.Version != 0 {
			t.Fatalf("version %d with %d devices before the first scan has ended, want 0", s.Version, len(s.Devices))
		}
		r.after(2 * time.Second)
		r.want("A timed out, the rest is published", map[string]string{"0001:5e:00.0": "healthy[]"})
		release()
		r.after(0)
		r.want("A came back", map[string]string{"3b:00.0": "healthy[]", "0001:5e:00.0": "healthy[]"})
	})
}

func TestFailingReadKeepsTheLastStateForThreeScans(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newBench("dfl")
		f.set(cardA, good(0, 0))
		f.set(cardB, good(1, 0))
		r := start(t, testConfig, f)
		f.fail(cardA, errors.New("read region0: input/output error"))
		healthy := map[string]string{"3b:00.0": "healthy[]", "0001:5e:00.0": "healthy[]"}
		r.hint(cardA)
		r.want("once", healthy)
		r.hint(cardA)
		r.want("twice", healthy)
		r.hint(cardA)
		r.want("three times", map[string]string{"3b:00.0": "unhealthy[scan-failed]", "0001:5e:00.0": "healthy[]"})
		r.after(time.Hour)
		if n := r.logs.FilterMessage("card could not be read").FilterLevelExact(zap.WarnLevel).Len(); n != 2 {
			t.Errorf("%d warnings in an hour of failing reads, want 2", n)
		}
		f.fail(cardA, nil)
		r.hint(cardA)
		r.after(10 * time.Second)
		r.want("readable again", healthy)
	})
}

func TestFailingListingLosesNothing(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newBench("dfl")
		f.set(cardA, good(0, 0))
		r := start(t, testConfig, f)
		f.mu.Lock()
		f.listErr = errors.New("open class/fpga_region: permission denied")
		f.mu.Unlock()
		r.after(time.Hour)
		r.want("listing fails", map[string]string{"3b:00.0": "healthy[]"})
		if n := r.logs.FilterMessage("cards could not be listed").Len(); n != 1 {
			t.Errorf("said %d times in an hour that cards could not be listed, want once", n)
		}
	})
}

func TestEndDoesNotWaitForAHangingCard(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newBench("dfl")
		f.set(cardA, good(0, 0))
		inv := inventory.New(testConfig, sysfs.Host{}, []inventory.Family{f}, zap.NewNop())
		release := f.hang(cardA)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- inv.Run(ctx) }()
		synctest.Wait()
		begin := time.Now()
		cancel()
		if err := <-done; err != nil || time.Since(begin) > time.Second {
			t.Errorf("Run ended after %s with %v, want within 1 s with nil", time.Since(begin), err)
		}
		release()
	})
}

func TestAlive(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newBench("dfl")
		r := start(t, testConfig, f)
		if err := r.Alive(t.Context()); err != nil {
			t.Errorf("Alive of a running inventory: %v", err)
		}
		idle := inventory.New(testConfig, sysfs.Host{}, nil, zap.NewNop())
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := idle.Alive(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Alive of one that does not run = %v, want deadline exceeded", err)
		}
	})
}
