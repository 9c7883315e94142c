package inventory_test

import (
	"fmt"
	"testing"
	"time"

	"b-com.com/accelerator-device-plugin/inventory"
	"b-com.com/accelerator-device-plugin/test/compare"
)

// offered returns a device's name, health and reasons.
func (r *rig) offered(id string) string {
	s, _ := r.Latest()
	d := s.Device(id)
	if d == nil {
		return "gone"
	}
	return fmt.Sprint(d.OfferedAs, " ", d.Health, d.Reasons)
}

// A device that was allocated under another name before the daemon started is never offered under its own name while it
// is held, even if it is read late because a card hangs.
func TestHeldUnderAnotherNameBeforeStart(t *testing.T) {
	for _, test := range []struct {
		name  string
		hangs string
		takes time.Duration // until the answer arrives
	}{
		{"no card hangs", "", 0},
		{"another card hangs", cardB, 0},
		{"another card hangs, and the answer is late", cardB, 200 * time.Millisecond},
		{"its card hangs", cardA, 100 * time.Millisecond},
	} {
		runInBubble(t, test.name, func(t *testing.T) {
			f, d := oneCard(good(0, 1)), newFakeKubelet()
			f.set(cardB, good(2, 0))
			d.holdAs("old", "3b:00.0-p1", pod)
			d.takes = test.takes
			cfg := withKubelet(d)
			cfg.Policy.Name = func(*inventory.Device) (string, error) { return "new", nil }
			release := func() {}
			if test.hangs != "" {
				release = f.hang(test.hangs)
			}
			r := start(t, cfg, f)
			seen := map[string]bool{}
			for range 400 { // longer than the inventory waits for a card
				seen[r.offered("3b:00.0-p1")] = true
				r.after(50 * time.Millisecond)
			}
			release()
			for range 1000 {
				seen[r.offered("3b:00.0-p1")] = true
				r.after(10 * time.Millisecond)
			}
			delete(seen, "gone") // before the first reading
			// While its card was hanging, the port was listed as port 0, with the same node.
			delete(seen, "old unhealthy [node-in-use replaced-in-use]")
			compare.Values(t, "offered as", map[string]bool{"old unhealthy [replaced-in-use]": true}, seen)
			d.free("3b:00.0-p1")
			r.after(11 * time.Second)
			compare.Equal(t, "offered when it is free as", "new healthy []", r.offered("3b:00.0-p1"))
		})
	}
}

// Without Holders, a device changes its name immediately.
func TestMoveWithoutHolders(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f, cfg := newFakeFamily("dfl"), testConfig
		cfg.Policy.Name = func(d *inventory.Device) (string, error) { return inShort(d.AFUID), nil }
		p := good(0, 0)
		f.set(cardA, p)
		r := start(t, cfg, f)
		p.AFUID = afu2
		r.set(cardA, p)
		compare.Equal(t, "offered as", "afu2 healthy []", r.offered("3b:00.0"))
	})
}
