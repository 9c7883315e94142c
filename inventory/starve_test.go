package inventory_test

import (
	"errors"
	"fmt"
	"syscall"
	"testing"
	"time"

	"go.uber.org/zap/zapcore"

	"b-com.com/accelerator-device-plugin/internal/logevent"
	"b-com.com/accelerator-device-plugin/internal/metrics"
	"b-com.com/accelerator-device-plugin/inventory"
	"b-com.com/accelerator-device-plugin/test/compare"
	"b-com.com/accelerator-device-plugin/test/metricstest"
)

// errOutOfDescriptors is the error that a family returns from a reading or listing.
var errOutOfDescriptors = fmt.Errorf("open region0: %w", syscall.EMFILE)

func withGrace(grace time.Duration) inventory.Config {
	cfg := testConfig
	cfg.TombstoneGrace, cfg.FlapLimit, cfg.FlapWindow = grace, 1, time.Hour
	return cfg
}

// shortage makes listings and all readings of these cards fail.
func (b *fakeFamily) shortage(err error, cards ...string) {
	for _, card := range cards {
		b.fail(card, err)
	}
	b.locked(func() { b.listErr = err })
}

// Without descriptors, every device keeps its state, and a single line is logged.
func TestShortageKeepsEverything(t *testing.T) {
	bubble(t, func(t *testing.T) {
		m := metrics.New("test")
		cfg := withGrace(5 * time.Minute)
		cfg.Metrics = m
		f := oneCard(good(0, 0), good(1, 1, busy))
		f.set(cardB, good(2, 0, ap6))
		r := start(t, cfg, f)
		before := map[string]string{"3b:00.0": "healthy[]", "3b:00.0-p1": "degraded[reprogramming]", "0001:5e:00.0": "unhealthy[port-ap6]"}
		r.want("before", before)
		version := r.version()

		f.shortage(errOutOfDescriptors, cardA, cardB)
		for range 27 {
			r.hint(cardA)
		}
		r.after(4*time.Minute + 59*time.Second)
		r.want("all the time", before)
		compare.Equal(t, "version", version, r.version())
		f.shortage(nil, cardA, cardB)
		f.set(cardB, good(2, 0))
		f.set(cardA, good(0, 0), good(1, 1))
		r.after(5 * time.Second)
		r.want("read again", map[string]string{
			"3b:00.0": "healthy[]", "3b:00.0-p1": "degraded[recovering=reprogramming]", "0001:5e:00.0": "healthy[]", // never offered before
		})
		r.after(20 * time.Second)
		r.want("held", map[string]string{"3b:00.0": "healthy[]", "3b:00.0-p1": "healthy[]", "0001:5e:00.0": "healthy[]"})
		if began, ended := r.logs.FilterField(logevent.DaemonStarved).Len(), r.logs.FilterField(logevent.DaemonRecovered).Len(); began != 1 || ended != 1 {
			t.Errorf("%d lines daemon.starved, %d lines daemon.recovered; want one of each", began, ended)
		}
		compare.Equal(t, "lines of cards that failed", 0, r.logs.FilterField(logevent.ScanFailed).Len()+r.logs.FilterField(logevent.ScanRecovered).Len())
		for _, series := range []string{`accelerator_scans_total{result="starved"}`, `accelerator_listings_total{result="starved"}`} {
			if got := metricstest.Samples(metricstest.Page(t, m), series)[series]; got == "" {
				t.Errorf("%s is 0", series)
			}
		}
		for _, series := range []string{`accelerator_scans_total{result="failed"}`, `accelerator_listings_total{result="failed"}`, `accelerator_cards_unreadable`} {
			compare.Equal(t, series, "", metricstest.Samples(metricstest.Page(t, m), series)[series])
		}
	})
}

// A reading is discarded entirely if the error in one of its conditions is a shortage. A missing port, a lost file or a
// different AFU in the same reading then has no effect either.
func TestShortageInConditionDiscardsReading(t *testing.T) {
	for _, errno := range []syscall.Errno{syscall.EMFILE, syscall.ENFILE, syscall.ENOMEM} {
		runInBubble(t, errno.Error(), func(t *testing.T) {
			f := oneCard(good(0, 0), good(1, 1))
			r := start(t, withGrace(5*time.Minute), f)
			before := map[string]string{"3b:00.0": "healthy[]", "3b:00.0-p1": "healthy[]"}
			r.want("before", before)

			half := good(0, 0, inventory.Condition{
				Reason: "unreadable=errors/errors", Health: inventory.Unhealthy, Err: fmt.Errorf("open errors: %w", errno),
			})
			half.AFUID, half.Files = "", []inventory.HealthFile{{Name: "afu_id", Lost: inventory.Unhealthy, Absent: true}}
			r.set(cardA, half)
			r.want("a partial reading", before)
			r.set(cardA, good(0, 0))
			r.want("the same without the shortage", map[string]string{"3b:00.0": "healthy[]"})
			if s, _ := r.Latest(); s.Device("3b:00.0").AFUID != afu1 {
				t.Errorf("AFU id %q, want %q", s.Device("3b:00.0").AFUID, afu1)
			}
		})
	}
}

// A device that couldn't be checked for the whole grace period becomes unhealthy.
func TestUnchecked(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := twoCards()
		r := start(t, withGrace(5*time.Minute), f)
		healthy := map[string]string{"3b:00.0": "healthy[]", "0001:5e:00.0": "healthy[]"}
		for turn := range 4 { // more than FlapLimit allows
			f.fail(cardA, errOutOfDescriptors)
			r.hint(cardA)
			r.after(4*time.Minute + 59*time.Second)
			r.want(fmt.Sprintf("turn %d, within the grace time", turn), healthy)
			r.after(6 * time.Second)
			r.want(fmt.Sprintf("turn %d, after it", turn), map[string]string{"3b:00.0": "unhealthy[unchecked]", "0001:5e:00.0": "healthy[]"})
			f.fail(cardA, nil)
			r.after(5 * time.Second)
			r.want(fmt.Sprintf("turn %d, read again", turn), map[string]string{"3b:00.0": "unhealthy[recovering=unchecked]", "0001:5e:00.0": "healthy[]"})
			r.after(10 * time.Second)
			r.want(fmt.Sprintf("turn %d, held", turn), healthy)
		}
	})
}

// Each reading without a shortage restarts the grace period, and a reading with another error ends it.
func TestUncheckedNeedsUninterruptedFailures(t *testing.T) {
	withCard(t, withGrace(time.Minute), func(t *testing.T, r *rig, f *fakeFamily) {
		for range 3 {
			f.fail(cardA, errOutOfDescriptors)
			r.after(50 * time.Second)
			f.fail(cardA, nil)
			r.after(5 * time.Second)
			r.want("now and then", map[string]string{"3b:00.0": "healthy[]"})
		}
		f.fail(cardA, errOutOfDescriptors)
		r.after(2 * time.Minute)
		r.want("for long", map[string]string{"3b:00.0": "unhealthy[unchecked]"})
		f.fail(cardA, errors.New("input/output error"))
		r.after(20 * time.Second)
		r.want("the card fails by itself", map[string]string{"3b:00.0": "unhealthy[scan-failed recovering=unchecked]"})
	})
}

// Without a grace period, a single failed reading still doesn't make a device unhealthy.
func TestUncheckedWithoutGrace(t *testing.T) {
	withCard(t, withGrace(0), func(t *testing.T, r *rig, f *fakeFamily) {
		f.fail(cardA, errOutOfDescriptors)
		r.hint(cardA)
		r.after(14 * time.Second)
		r.want("within three intervals", map[string]string{"3b:00.0": "healthy[]"})
		r.after(6 * time.Second)
		r.want("after them", map[string]string{"3b:00.0": "unhealthy[unchecked]"})
	})
}

// Cards that are plugged in or pulled during a shortage are noticed within a health interval after it ends.
func TestCardsComeAndGoInAShortage(t *testing.T) {
	withCard(t, withGrace(5*time.Minute), func(t *testing.T, r *rig, f *fakeFamily) {
		f.shortage(errOutOfDescriptors, cardA, cardB)
		f.set(cardB, good(1, 0))
		r.pull(cardA)
		r.hint(cardB)
		r.after(time.Minute)
		r.want("not known yet", map[string]string{"3b:00.0": "healthy[]"})
		r.after(10 * time.Minute)
		r.want("for too long", map[string]string{"3b:00.0": "unhealthy[unchecked]"})
		f.shortage(nil, cardA, cardB)
		r.after(5 * time.Second)
		r.want("over", map[string]string{"0001:5e:00.0": "healthy[]"})
	})
}

// A card without a hint is found by the listing, which is repeated at the next health tick.
func TestListingIsRepeatedAfterShortage(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFakeFamily("dfl")
		r := start(t, withGrace(5*time.Minute), f)
		f.shortage(errOutOfDescriptors)
		f.set(cardB, good(1, 0))
		f.fail(cardB, errOutOfDescriptors)
		r.Hint(inventory.Hint{Source: "test", At: time.Now()})
		r.after(time.Second)
		f.shortage(nil, cardB)
		r.after(5 * time.Second)
		r.want("over", map[string]string{"0001:5e:00.0": "healthy[]"})
	})
}

// A daemon that starts during a shortage doesn't publish anything until it can list the cards.
func TestStartInAShortage(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := twoCards()
		f.shortage(errOutOfDescriptors, cardA, cardB)
		r := start(t, withGrace(5*time.Minute), f)
		r.after(time.Hour)
		compare.Equal(t, "version", 0, r.version())
		f.shortage(nil, cardA)
		r.after(5 * time.Second)
		r.want("one card can be read", map[string]string{"3b:00.0": "healthy[]"})
		f.shortage(nil, cardB)
		r.after(5 * time.Second)
		r.want("both", map[string]string{"3b:00.0": "healthy[]", "0001:5e:00.0": "healthy[]"})
		if s, _ := r.Latest(); !s.Complete {
			t.Error("snapshot is not complete, want it complete: every card has answered")
		}
		compare.Equal(t, "warnings", 1, r.logs.FilterLevelExact(zapcore.WarnLevel).Len())
	})
}
