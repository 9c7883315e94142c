package inventory_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"

	"b-com.com/accelerator-device-plugin/internal/logevent"
	"b-com.com/accelerator-device-plugin/internal/sysfs"
	"b-com.com/accelerator-device-plugin/inventory"
	"b-com.com/accelerator-device-plugin/test/compare"
	"b-com.com/accelerator-device-plugin/test/eventtest"
)

func TestReadTimeout(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := twoCards()
		r := start(t, testConfig, f)

		release := f.hang(cardA)
		r.hint(cardA)
		r.after(time.Second)
		r.set(cardB, good(1, 0, ap6))
		r.want("A hangs, B breaks", map[string]string{"3b:00.0": "healthy[]", "0001:5e:00.0": "unhealthy[port-ap6]"})
		r.after(time.Second)
		r.want("A timed out", map[string]string{"3b:00.0": "unhealthy[read-timeout]", "0001:5e:00.0": "unhealthy[port-ap6]"})

		r.after(time.Hour)
		compare.Equal(t, "readings of a card that hangs", 3, f.reads[cardA])
		release()
		r.after(0)
		r.want("A came back", map[string]string{"3b:00.0": "unhealthy[recovering=read-timeout]", "0001:5e:00.0": "unhealthy[port-ap6]"})
		r.after(10 * time.Second)
		r.want("A held", map[string]string{"3b:00.0": "healthy[]", "0001:5e:00.0": "unhealthy[port-ap6]"})
	})
}

// A reading may hang for a reason that a later reading avoids. The later reading's result is used.
func TestSecondReading(t *testing.T) {
	withCard(t, testConfig, func(t *testing.T, r *rig, f *fakeFamily) {
		release := f.hang(cardA)
		r.hint(cardA)
		f.set(cardA, good(0, 0, busy))
		f.unhang(cardA) // for the next reading
		r.after(time.Second)
		r.want("read once more", map[string]string{"3b:00.0": "degraded[reprogramming]"})
		f.set(cardA, good(0, 0, ap6))
		r.after(4 * time.Second)
		r.want("ticks go on", map[string]string{"3b:00.0": "unhealthy[port-ap6 recovering=reprogramming]"})
		reads := f.reads[cardA]
		release()
		r.after(0)
		r.want("the first one comes back", map[string]string{"3b:00.0": "unhealthy[port-ap6 recovering=reprogramming]"})
		compare.Equal(t, "readings after a late one whose result is discarded", reads, f.reads[cardA])
		compare.Equal(t, "lines that a reading timed out", 0, r.logs.FilterField(logevent.ReadTimeout).Len()+r.logs.FilterField(logevent.ReadRecovered).Len())
	})
}

// A slow card isn't reread over and over. Whichever of the two readings returns first is used, even if the other one is
// still in progress.
func TestSlowCard(t *testing.T) {
	withCard(t, testConfig, func(t *testing.T, r *rig, f *fakeFamily) {
		for range 5 {
			release := f.hang(cardA)
			r.hint(cardA)
			r.after(1500 * time.Millisecond)
			release()
			r.after(0)
			r.want("slow", map[string]string{"3b:00.0": "healthy[]"})
		}
	})
}

// A late reading's result is out of date, so the card is read once more.
func TestLateReadingIsDiscarded(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := oneCard()
		release := f.hang(cardA)
		r := start(t, testConfig, f)
		r.after(time.Hour)
		r.want("hangs from the start", map[string]string{"3b:00.0": "unhealthy[read-timeout]"})
		f.onRead = func() { f.cards[cardA] = inventory.Reading{Units: []inventory.Unit{good(0, 0, ap6)}} }
		release() // its result is an hour old
		r.after(0)
		r.want("read again", map[string]string{"3b:00.0": "unhealthy[port-ap6]"})
		compare.Equal(t, "lines of the late result", 0, r.logs.FilterField(zap.String("new", "healthy")).Len())
	})
}

// While a reading of a card hangs, the card can be removed, and another one can be plugged into its slot.
func TestCardThatHangsLeaves(t *testing.T) {
	withCard(t, testConfig, func(t *testing.T, r *rig, f *fakeFamily) {
		release := f.hang(cardA)
		r.hint(cardA)
		r.after(2 * time.Second)
		r.want("timed out", map[string]string{"3b:00.0": "unhealthy[read-timeout]"})

		f.unhang(cardA) // the next reading doesn't hang, but the old one still does
		r.pull(cardA)
		r.want("pulled", map[string]string{})
		r.set(cardA, good(7, 0))
		r.want("another card in its slot", map[string]string{"3b:00.0": "healthy[]"})
		release()
		r.after(0)
		r.want("the old reading came back", map[string]string{"3b:00.0": "healthy[]"})
	})
}

// If new readings hang too, the listing shows that the card has been removed.
func TestHangingCardIsNoLongerListed(t *testing.T) {
	withCard(t, testConfig, func(t *testing.T, r *rig, f *fakeFamily) {
		release := f.hang(cardA)
		for range 10 {
			r.hint(cardA)
			r.after(2 * time.Second)
		}
		compare.Equal(t, "readings of a card that hangs", 1+3, f.reads[cardA])
		f.pull(cardA)
		r.after(time.Minute)
		r.want("one listing later", map[string]string{})
		release()
		r.after(0)
		r.want("the old readings came back", map[string]string{})
	})
}

// A card is removed and rediscovered within a resync interval, while all readings of it hang. A hint for the removal is
// enough to read the new one.
func TestResetOfAHangingCard(t *testing.T) {
	for hints := range 4 {
		withCard(t, testConfig, func(t *testing.T, r *rig, f *fakeFamily) {
			release := f.hang(cardA)
			r.after(10 * time.Second) // a check hangs
			for range hints {         // the kernel tries to recover the card
				r.hint(cardA)
				r.after(3 * time.Second)
			}
			f.unhang(cardA) // readings in progress still hang
			r.pull(cardA)
			r.after(2 * time.Second)
			r.set(cardA, good(7, 0))
			r.after(time.Minute)
			r.want(fmt.Sprint("reset after hints: ", hints), map[string]string{"3b:00.0": "healthy[]"})
			release()
			r.after(0)
		})
	}
}

// For a card that was never read, only one outline is read at a time, even if it hangs.
func TestOutlineThatHangs(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := oneCard()
		release, slow := f.hang(cardA), slowOutline{f, make(chan struct{})}
		r := startFamilies(t, sysfs.Host{}, testConfig, f, slow)
		before := runtime.NumGoroutine()
		r.after(time.Hour)
		if more := runtime.NumGoroutine() - before; more > 10 {
			t.Errorf("%d more goroutines after an hour, want some", more)
		}
		close(slow.gate)
		release()
		r.after(time.Minute)
		r.want("answers", map[string]string{"3b:00.0": "healthy[]"})
	})
}

// replug sends two hints for a card and waits after each, so that all readings of it hang, and then replaces the card.
func (r *rig) replug(f *fakeFamily, n int) {
	for range 2 {
		r.hint(cardA)
		r.after(3 * time.Second)
	}
	r.pull(cardA)
	r.after(2 * time.Second)
	r.set(cardA, good(n, 0))
	r.after(3 * time.Second)
}

// If the cards in a slot hang and are replaced over and over, the number of readings in progress stays limited. Each
// card is reported, and the last one is read once the readings return.
func TestReplugsOfCardsThatHang(t *testing.T) {
	withCard(t, testConfig, func(t *testing.T, r *rig, f *fakeFamily) {
		release := f.hang(cardA)
		for n := range 5 {
			r.replug(f, n)
		}
		before, reads := runtime.NumGoroutine(), f.reads[cardA]
		hangs := map[string]string{"3b:00.0": "unhealthy[read-timeout]"}
		for n := range 100 {
			r.replug(f, n)
			r.want(fmt.Sprint("card ", n), hangs)
		}
		if more := runtime.NumGoroutine() - before; more > 10 || f.reads[cardA] != reads { // the runtime may have a few
			t.Errorf("100 re-plugs: %d more goroutines and %d more readings, want none", more, f.reads[cardA]-reads)
		}
		if n := r.logs.FilterField(logevent.ReadTimeout).Len(); n < 100 {
			t.Errorf("%d lines that a card hangs, want one for each card", n)
		}
		f.unhang(cardA)
		r.after(time.Hour)
		r.want("the readings still hang", hangs)
		r.pull(cardA)
		r.after(time.Second)
		r.want("pulled", map[string]string{})
		r.set(cardA, good(7, 0))
		r.want("nothing is known of the new card", map[string]string{"3b:00.0": "unhealthy[read-timeout]"})
		release()
		r.after(time.Minute)
		r.want("the readings returned", map[string]string{"3b:00.0": "healthy[]"})
	})
}

// Outlines of cards that hang are limited too. Without an outline, a card's devices are unknown, but the card is
// logged.
func TestReplugsOfCardsWhoseOutlinesHang(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := oneCard()
		release, slow := f.hang(cardA), slowOutline{f, make(chan struct{})}
		r := startFamilies(t, sysfs.Host{}, testConfig, f, slow)
		for n := range 15 {
			r.replug(f, n)
		}
		before, lines := runtime.NumGoroutine(), r.logs.FilterField(logevent.ReadTimeout).Len()
		for n := range 100 {
			r.replug(f, n)
		}
		if more := runtime.NumGoroutine() - before; more > 10 {
			t.Errorf("%d more goroutines after 100 re-plugs, want none, except the runtime's", more)
		}
		if n := r.logs.FilterField(logevent.ReadTimeout).Len() - lines; n < 100 {
			t.Errorf("%d lines that a card hangs, want one for each card", n)
		}
		close(slow.gate)
		release()
		r.after(time.Minute)
		r.want("all returned", map[string]string{"3b:00.0": "healthy[]"})
	})
}

// A working card is read even though readings of several earlier cards in its slot are hanging.
func TestCardAfterCardsThatHang(t *testing.T) {
	withCard(t, testConfig, func(t *testing.T, r *rig, f *fakeFamily) {
		release := f.hang(cardA)
		for n := range 3 {
			r.replug(f, n)
		}
		f.unhang(cardA)
		r.pull(cardA)
		r.after(2 * time.Second)
		r.set(cardA, good(7, 0))
		r.after(time.Minute)
		r.want("the next card", map[string]string{"3b:00.0": "healthy[]"})
		r.set(cardA, good(7, 0, ap6))
		r.want("it is read again", map[string]string{"3b:00.0": "unhealthy[port-ap6]"})
		release()
		r.after(time.Minute)
	})
}

// If too many readings of a card hang when a hint for it arrives, the card is read as soon as one of them returns, even
// if a newer one still hangs. It doesn't have to wait for a tick.
func TestHintWaitsForFirstReturn(t *testing.T) {
	cfg := testConfig
	cfg.RecoveryHold, cfg.HealthInterval = 0, time.Hour
	withCard(t, cfg, func(t *testing.T, r *rig, f *fakeFamily) {
		older := f.hang(cardA)
		r.hint(cardA)
		r.after(2 * time.Second) // the card is read twice
		newer := f.hang(cardA)
		r.hint(cardA)
		r.after(2 * time.Second)
		r.set(cardA, good(0, 0, ap6))
		r.want("three hang", map[string]string{"3b:00.0": "unhealthy[read-timeout]"})
		older()
		r.after(0)
		r.want("two came back", map[string]string{"3b:00.0": "unhealthy[port-ap6]"})
		newer()
		r.after(0)
		r.want("all came back", map[string]string{"3b:00.0": "unhealthy[port-ap6]"})
	})
}

func TestManyHangingCardsDelayNoOther(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFakeFamily("dfl")
		for i := range 64 {
			address := fmt.Sprintf("0000:%02x:00.0", i)
			f.set(address, good(i, 0))
			if i != 63 {
				defer f.hang(address)()
			}
		}
		r := start(t, testConfig, f)
		r.after(250 * time.Millisecond)
		r.want("all others hang", map[string]string{"3f:00.0": "healthy[]"})
		r.after(2 * time.Second)
		if n := len(r.states()); n != 64 || r.states()["00:00.0"] != "unhealthy[read-timeout]" {
			t.Errorf("%d devices listed, the first %s; want all 64, unhealthy[read-timeout]", n, r.states()["00:00.0"])
		}
		f.set("0000:3f:00.0", good(63, 0, ap6))
		r.after(5 * time.Second)
		compare.Equal(t, "the card that answers, after a tick", "unhealthy[port-ap6]", r.states()["3f:00.0"])
	})
}

func TestFirstSnapshotWaitsForAllReadings(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := twoCards()
		release := f.hang(cardA)
		r := start(t, testConfig, f)
		r.after(250*time.Millisecond - 1)
		if s, _ := r.Latest(); s.Version != 0 {
			t.Fatalf("version %d with %d devices before all cards have been read, want 0", s.Version, len(s.Devices))
		}
		r.after(1)
		r.want("waited long enough", map[string]string{"0001:5e:00.0": "healthy[]"})
		if s, _ := r.Latest(); s.Complete {
			t.Error("snapshot is complete, want it not complete: a card has not answered")
		}
		r.after(2 * time.Second)
		r.want("A timed out, and is listed", map[string]string{"3b:00.0": "unhealthy[read-timeout]", "0001:5e:00.0": "healthy[]"})
		if s, _ := r.Latest(); !s.Complete {
			t.Error("snapshot is not complete, want it complete: the card that hangs was given up")
		}
		release()
		r.after(0)
		r.want("A came back", map[string]string{"3b:00.0": "healthy[]", "0001:5e:00.0": "healthy[]"})
	})
}

func TestFailingReadKeepsTheLastStateForThreeReadings(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := twoCards()
		r := start(t, testConfig, f)
		f.fail(cardA, errors.New("read region0: input/output error"))
		healthy := map[string]string{"3b:00.0": "healthy[]", "0001:5e:00.0": "healthy[]"}
		for range 27 { // the number of uevents when a card is plugged in
			r.hint(cardA)
		}
		r.want("a burst of hints", healthy)
		r.after(5 * time.Second)
		r.want("twice", healthy)
		r.after(5 * time.Second)
		r.want("three times", map[string]string{"3b:00.0": "unhealthy[scan-failed]", "0001:5e:00.0": "healthy[]"})
		r.after(time.Hour)
		compare.Equal(t, "warnings in an hour of failing reads", 2, r.logs.FilterMessage("card could not be read").FilterLevelExact(zap.WarnLevel).Len())
		f.fail(cardA, nil)
		r.hint(cardA)
		r.want("readable again", map[string]string{"3b:00.0": "unhealthy[recovering=scan-failed]", "0001:5e:00.0": "healthy[]"})
		r.after(10 * time.Second)
		r.want("held", healthy)
	})
}

// A card that could never be read is listed too.
func TestCardThatFailsFromTheStart(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := oneCard(good(0, 0), good(1, 1))
		f.fail(cardA, errors.New("read region0: input/output error"))
		r := start(t, testConfig, f)
		failed := map[string]string{"3b:00.0": "unhealthy[scan-failed]", "3b:00.0-p1": "unhealthy[scan-failed]"}
		r.want("no last state to keep", failed)
		if s, _ := r.Latest(); !s.Complete {
			t.Error("snapshot is not complete, want it complete: every card has answered")
		}
		r.after(time.Minute)
		r.want("a minute later", failed)
		f.fail(cardA, nil)
		r.hint(cardA)
		r.want("readable", map[string]string{"3b:00.0": "healthy[]", "3b:00.0-p1": "healthy[]"})
	})
}

func TestFailingListingKeepsCards(t *testing.T) {
	withCard(t, testConfig, func(t *testing.T, r *rig, f *fakeFamily) {
		f.locked(func() { f.listErr = errors.New("open class/fpga_region: permission denied") })
		r.after(time.Hour)
		r.want("listing fails", map[string]string{"3b:00.0": "healthy[]"})
		compare.Equal(t, "lines in an hour that cards could not be listed", 1, r.logs.FilterMessage("cards could not be listed").Len())
	})
}

func TestEndDoesNotWaitForAHangingCard(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := oneCard()
		cfg := testConfig
		cfg.Policy.Families = []inventory.Family{f}
		inv := inventory.New(cfg, sysfs.Host{}, eventtest.Log(t))
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
		f := newFakeFamily("dfl")
		r := start(t, testConfig, f)
		compare.NoError(t, "Alive of a running inventory", r.Alive(t.Context()))
		idle := inventory.New(testConfig, sysfs.Host{}, eventtest.Log(t))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		compare.ErrorIs(t, "Alive of an inventory that does not run", context.DeadlineExceeded, idle.Alive(ctx))
	})
}

// If a new card can't be read, its latency is measured from its hint.
func TestLatencyOfAnOutline(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFakeFamily("test")
		r := start(t, testConfig, f)
		f.set(cardA, good(0, 0))
		f.fail(cardA, errors.New("i/o error"))
		at := time.Now()
		r.hint(cardA)
		r.want("cannot be read", map[string]string{"3b:00.0": "unhealthy[scan-failed]"})
		if s, _ := r.Latest(); !s.Hinted.Equal(at) {
			t.Errorf("hinted at %v, want %v", s.Hinted, at)
		}
		added := r.logs.FilterMessage("device added").All()
		if len(added) != 1 || added[0].ContextMap()["latency_ms"] == nil {
			t.Errorf("lines %v, want one with the latency", added)
		}
	})
}
