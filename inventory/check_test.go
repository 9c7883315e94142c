package inventory_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"b-com.com/accelerator-device-plugin/internal/sysfs"
	"b-com.com/accelerator-device-plugin/inventory"
	"b-com.com/accelerator-device-plugin/test/compare"
	"b-com.com/accelerator-device-plugin/test/must"
)

var slow = inventory.Condition{Reason: "link-width=4", Health: inventory.Degraded}

// observing is a fakeFamily whose readings return a single observation, of the file at path.
type observing struct {
	*fakeFamily
	path string
}

func (f observing) Read(host sysfs.Host, card string) (inventory.Reading, error) {
	text, err := sysfs.Read(f.path)
	if err != nil {
		return inventory.Reading{}, err
	}
	r, err := f.fakeFamily.Read(host, card)
	r.Observed = []sysfs.Observation{sysfs.ObserveValue(f.path, text)}
	return r, err
}

func (f observing) write(t *testing.T, value string) {
	t.Helper()
	must.Succeed(t, os.WriteFile(f.path, []byte(value), 0o600))
}

// startObserving runs an inventory with card A, which has a healthy port.
func startObserving(t *testing.T) (*rig, observing) {
	t.Helper()
	f := observing{newFakeFamily("dfl"), filepath.Join(t.TempDir(), "observed")}
	f.write(t, "0")
	f.set(cardA, good(0, 0))
	return startFamilies(t, sysfs.Host{}, testConfig, f.fakeFamily, f), f
}

// wantReads checks how often card A was read.
func (f observing) wantReads(t *testing.T, when string, want int) {
	t.Helper()
	compare.Equal(t, when+": readings", want, f.readsOf(cardA))
}

var allGood = map[string]string{"3b:00.0": "healthy[]"}

// A card without conditions is read at startup, at each resync and on a hint. In between, it is only checked.
func TestCheck(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r, f := startObserving(t)
		f.wantReads(t, "start", 1)
		r.after(59 * time.Second)
		f.wantReads(t, "11 health intervals", 1)
		r.after(time.Second)
		f.wantReads(t, "resync", 2)
		r.hint(cardA)
		f.wantReads(t, "hint", 3)
		r.after(59 * time.Second)
		f.wantReads(t, "11 health intervals more", 3)
		r.want("all the time", allGood)
	})
}

// A change to an observed file is noticed at the health interval. From then on, the card is read until it is healthy
// again and the hold is over.
func TestCheckFindsObservedChange(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r, f := startObserving(t)
		r.after(time.Millisecond)
		f.set(cardA, good(0, 0, ap6))
		f.write(t, "1")
		r.after(4998 * time.Millisecond)
		r.want("before the tick", allGood)
		r.after(time.Millisecond)
		r.want("tick", map[string]string{"3b:00.0": "unhealthy[port-ap6]"})
		f.wantReads(t, "tick", 2)
		r.after(10 * time.Second)
		f.wantReads(t, "two ticks while it is wrong", 4)
		f.set(cardA, good(0, 0)) // the observed file hasn't changed, but a card with a condition is read anyway
		r.after(5 * time.Second)
		r.want("over", map[string]string{"3b:00.0": "unhealthy[recovering=port-ap6]"})
		f.wantReads(t, "over", 5)
		r.after(10 * time.Second)
		r.want("held", allGood)
		reads := f.readsOf(cardA)
		r.after(5 * time.Second)
		f.wantReads(t, "checked again", reads)
	})
}

// A card with an ignored reason is read rather than checked, because a file that can't be read isn't among the
// observations.
func TestNoCheckWithIgnoredReason(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r, f := startObserving(t)
		ignored := slow
		ignored.Row = "link-width"
		r.Use(inventory.Policy{Severity: map[string]inventory.Health{"link-width": inventory.Healthy}})
		r.set(cardA, good(0, 0, ignored))
		r.want("ignored", allGood)
		reads := f.readsOf(cardA)
		r.after(20 * time.Second)
		f.wantReads(t, "four ticks", reads+4)
	})
}

// During a recovery hold and while it has no ports, a card is read rather than checked.
func TestNoCheckInHoldOrWithoutPorts(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r, f := startObserving(t)
		r.set(cardA, good(0, 0, ap6))
		r.after(time.Second)
		r.set(cardA, good(0, 0))
		r.want("over", map[string]string{"3b:00.0": "unhealthy[recovering=port-ap6]"})
		f.set(cardA, good(0, 0, slow))
		r.after(4 * time.Second)
		r.want("tick in the hold", map[string]string{"3b:00.0": "unhealthy[link-width=4 recovering=port-ap6]"})

		r.set(cardA)
		r.want("released", map[string]string{})
		f.set(cardA, good(0, 0))
		r.after(5 * time.Second)
		r.want("assigned", allGood)
	})
}

// A card that has been removed isn't listed again, even though the observed file still exists.
func TestCheckOfRemovedCard(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r, f := startObserving(t)
		r.pull(cardA)
		r.want("pulled", map[string]string{})
		r.after(2 * time.Minute)
		r.want("checked", map[string]string{})
		f.set(cardA, good(0, 0))
		r.after(time.Minute)
		r.want("listed again", allGood)
	})
}

// A card that can't be read is read again rather than checked, and so is a card that the kernel has given up on.
func TestNoCheckInTrouble(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r, f := startObserving(t)
		r.Hint(inventory.Hint{Card: cardA, Source: "test", At: time.Now(), RecoveryFailed: true})
		r.after(0)
		r.want("answers", map[string]string{"3b:00.0": "unhealthy[recovering=recovery-failed]"})
		r.after(15 * time.Second)
		r.want("held", allGood)

		f.fail(cardA, os.ErrPermission)
		r.hint(cardA)
		for range 2 {
			r.want("last state", allGood)
			r.after(5 * time.Second)
		}
		r.want("failed three times, the file is unchanged", map[string]string{"3b:00.0": "unhealthy[scan-failed]"})
	})
}

// A hint isn't lost if its read failed because the daemon was out of descriptors. The next tick reads the card even if
// none of the observations have changed.
func TestNoCheckAfterShortage(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r, f := startObserving(t)
		r.want("before", map[string]string{"3b:00.0": "healthy[]"})
		f.set(cardA, good(0, 0, ap6))
		f.shortage(errOutOfDescriptors, cardA)
		r.hint(cardA)
		r.want("out of descriptors", map[string]string{"3b:00.0": "healthy[]"})
		f.shortage(nil, cardA)
		r.after(testConfig.HealthInterval)
		r.want("read again", map[string]string{"3b:00.0": "unhealthy[port-ap6]"})
	})
}
