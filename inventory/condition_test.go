package inventory_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"b-com.com/accelerator-device-plugin/inventory"
	"b-com.com/accelerator-device-plugin/test/compare"
)

// counted returns a healthy port with a counter at n.
func counted(n uint64) inventory.Unit {
	p := good(0, 0)
	p.Counters = []inventory.Counter{{
		Name: "pci/aer_dev_fatal", Value: n, Reason: "aer-fatal", Health: inventory.Unhealthy, Row: "aer-fatal",
	}}
	return p
}

func TestCounter(t *testing.T) {
	const fine, bad, over = "healthy[]", "unhealthy[aer-fatal]", "unhealthy[recovering=aer-fatal]"
	type step struct {
		count uint64
		want  string
		wait  time.Duration // before the next step
	}
	for _, test := range []struct {
		name  string
		steps []step
	}{
		{"first value", []step{{7, fine, 0}, {7, fine, 0}}},
		{"rises, and stays", []step{{7, fine, 0}, {8, bad, 0}, {8, over, 10 * time.Second}, {8, fine, 0}}},
		{"goes on rising", []step{{0, fine, 0}, {1, bad, 4 * time.Second}, {2, bad, 4 * time.Second}, {3, bad, 0}, {3, over, 10 * time.Second}, {3, fine, 0}}},
		{"rises again in the hold", []step{{0, fine, 0}, {1, bad, 0}, {1, over, 9 * time.Second}, {2, bad, 0}, {2, over, 9 * time.Second}, {2, over, 0}}},
		{"begins anew", []step{{7, fine, 0}, {0, fine, 0}, {1, bad, 0}}},
	} {
		runInBubble(t, test.name, func(t *testing.T) {
			f := oneCard(counted(test.steps[0].count))
			cfg := testConfig
			cfg.HealthInterval, cfg.ResyncInterval = time.Hour, time.Hour
			r := start(t, cfg, f)
			for i, s := range test.steps {
				r.set(cardA, counted(s.count))
				r.want(fmt.Sprintf("step %d, count %d", i, s.count), map[string]string{"3b:00.0": s.want})
				r.after(s.wait)
			}
		})
	}
}

func TestCounterErrorHasBothValues(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := oneCard(counted(7))
		r := start(t, testConfig, f)
		r.set(cardA, counted(9))
		lines := r.logs.FilterMessage("device health changed").All()
		if len(lines) != 1 || !strings.Contains(fmt.Sprint(lines[0].ContextMap()["error"]), "pci/aer_dev_fatal: rose from 7 to 9") {
			t.Errorf("lines %v, want one with the values before and after the rise", lines)
		}
	})
}

// A port with a new directory has a new counter.
func TestCounterOfAnotherDirectory(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := oneCard(counted(7))
		r := start(t, testConfig, f)
		p := counted(9)
		p.Incarnation++
		r.set(cardA, p)
		r.want("another directory", map[string]string{"3b:00.0": "healthy[]"})
	})
}

// TestFileIsLost covers a lost file that has its own reason, and a file that isn't in a reading at all.
func TestFileIsLost(t *testing.T) {
	driver := inventory.HealthFile{Name: "fme/driver", Lost: inventory.Unhealthy, Row: "fme-unbound", Reason: "fme-unbound"}
	errors := inventory.HealthFile{Name: "fme/errors/catfatal_errors", Lost: inventory.Unhealthy, Row: "fme-fatal"}
	gone := func(f inventory.HealthFile) inventory.HealthFile { f.Absent = true; return f }
	port := func(files ...inventory.HealthFile) inventory.Unit {
		p := good(0, 0)
		p.Files = files
		return p
	}
	bubble(t, func(t *testing.T) {
		f := oneCard(port(gone(driver)))
		r := start(t, testConfig, f)
		r.want("was never there", map[string]string{"3b:00.0": "healthy[]"})
		r.set(cardA, port(driver, errors))
		r.want("is there", map[string]string{"3b:00.0": "healthy[]"})
		r.set(cardA, port(gone(driver)))
		r.want("is gone, and the reading lacks the other", map[string]string{"3b:00.0": "unhealthy[fme-unbound]"})
		r.set(cardA, port(driver, gone(errors)))
		r.want("is back, and the other is gone", map[string]string{"3b:00.0": "unhealthy[unreadable=fme/errors/catfatal_errors recovering=fme-unbound]"})
		another := port(driver, gone(errors))
		another.Incarnation++
		r.set(cardA, another)
		r.after(10 * time.Second)
		r.want("another directory never had it", map[string]string{"3b:00.0": "healthy[]"})
	})
}

// gaveUp sends a hint that the kernel couldn't recover a card.
func (r *rig) gaveUp(card string) {
	r.Hint(inventory.Hint{Card: card, Source: "test", At: time.Now(), RecoveryFailed: true})
	r.after(0)
}

func TestRecoveryFailed(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := oneCard(good(0, 0), good(1, 1))
		f.set(cardB, good(2, 0))
		r := start(t, testConfig, f)
		history := r.history()
		r.gaveUp(cardA)
		r.want("it answers", map[string]string{
			"3b:00.0": "unhealthy[recovering=recovery-failed]", "3b:00.0-p1": "unhealthy[recovering=recovery-failed]", "0001:5e:00.0": "healthy[]",
		})
		r.after(10 * time.Second)
		healthy := map[string]string{"3b:00.0": "healthy[]", "3b:00.0-p1": "healthy[]", "0001:5e:00.0": "healthy[]"}
		r.want("it has answered for the hold time", healthy)
		compare.Contains(t, "first change", "3b:00.0:unhealthy", history()[0])
	})
}

// A card that the kernel has given up on stays unhealthy until a later reading shows that it responds.
func TestRecoveryFailedWithoutAnswer(t *testing.T) {
	dead := inventory.Condition{Reason: "afu-dead", Health: inventory.Unhealthy, Dead: true}
	withCard(t, testConfig, func(t *testing.T, r *rig, f *fakeFamily) {
		release := f.hang(cardA)
		r.hint(cardA) // this reading starts before the kernel's hint
		f.unhang(cardA)
		f.set(cardA, good(0, 0, dead))
		r.gaveUp(cardA)
		r.want("given up, a reading under way", map[string]string{"3b:00.0": "unhealthy[recovery-failed]"})
		f.set(cardA, good(0, 0))
		f.locked(func() {
			f.onRead = func() { f.cards[cardA] = inventory.Reading{Units: []inventory.Unit{good(0, 0, dead)}} }
		})
		release()
		r.after(0)
		r.want("dead", map[string]string{"3b:00.0": "unhealthy[afu-dead recovery-failed]"})
		r.after(time.Hour)
		r.want("dead for long", map[string]string{"3b:00.0": "unhealthy[afu-dead recovery-failed]"})
		r.set(cardA, good(0, 0))
		r.want("it answers", map[string]string{"3b:00.0": "unhealthy[recovering=afu-dead recovering=recovery-failed]"})
		r.after(10 * time.Second)
		r.want("for the hold time", map[string]string{"3b:00.0": "healthy[]"})
	})
}

// If too many hints are waiting, the hint that the kernel has given up on a card isn't lost.
func TestRecoveryFailedAmongMany(t *testing.T) {
	withCard(t, testConfig, func(t *testing.T, r *rig, f *fakeFamily) {
		for i := range 20_000 {
			card := fmt.Sprintf("%04x:00:00.0", i+1)
			if i == 100 {
				r.Hint(inventory.Hint{Card: cardA, Source: "test", At: time.Now()})
				r.Hint(inventory.Hint{Card: cardA, Source: "test", At: time.Now(), RecoveryFailed: true})
				r.Hint(inventory.Hint{Card: cardA, Source: "test", At: time.Now()})
			}
			r.Hint(inventory.Hint{Card: card, Source: "test", At: time.Now()})
		}
		r.after(0)
		r.want("twenty thousand hints", map[string]string{"3b:00.0": "unhealthy[recovering=recovery-failed]"})
	})
}
