package inventory_test

import (
	"testing"
	"testing/synctest"
	"time"

	"b-com.com/accelerator-device-plugin/internal/sysfs"
	"b-com.com/accelerator-device-plugin/inventory"
)

// modeRig runs an inventory with the ports of one card, and returns the family of another mode
// that reads a region there.
func modeRig(t *testing.T, d *desk) (*rig, *bench) {
	ports, regions := newBench("ports"), newBench("regions")
	ports.set(cardA, good(0, 0))
	region := good(0, 0)
	region.Name = "dfl-fme.0"
	regions.set(cardA, region)
	cfg := withDesk(d)
	cfg.Policy = modePolicy("single")
	return start(t, cfg, ports), regions
}

func modePolicy(name string, families ...inventory.Family) inventory.Policy {
	return inventory.Policy{
		Mode: name, Families: families,
		Name: func(*inventory.Device) (string, error) { return name, nil },
	}
}

// If the mode changes, the devices are withheld before it is asked who holds them: a container
// that is given one after the question is not in the answer.
func TestModeChangeWithholdsFirst(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d := newDesk()
		r, regions := modeRig(t, d)
		r.want("before", map[string]string{"3b:00.0": "healthy[]"})
		d.set(func() { d.takes = 100 * time.Millisecond })
		r.Inventory.Use(modePolicy("region", regions))
		synctest.Wait()
		r.want("the mode has changed, holders are not known yet", map[string]string{"3b:00.0": "unhealthy[moving]"})
		r.after(100 * time.Millisecond)
		r.want("nobody holds it", map[string]string{"3b:00.0": "healthy[]"})
	})
}

// slowOutline is a family whose outlines take until its gate is closed.
type slowOutline struct {
	*bench
	gate chan struct{}
}

func (s slowOutline) Outline(host sysfs.Host, card string) (inventory.Reading, error) {
	<-s.gate
	return s.bench.Outline(host, card)
}

// The outline of a card by the families of the former mode does not count.
func TestOutlineOfTheFormerMode(t *testing.T) {
	bubble(t, func(t *testing.T) {
		ports, regions := newBench("ports"), newBench("regions")
		ports.set(cardA, good(0, 0))
		regions.set(cardA, good(0, 0))
		answers := []func(){ports.hang(cardA), regions.hang(cardA)}
		former := slowOutline{ports, make(chan struct{})}
		cfg := testConfig
		cfg.Policy = modePolicy("single")
		r := startFamilies(t, sysfs.Host{}, cfg, ports, former)
		r.after(cfg.ReadTimeout)
		r.Inventory.Use(modePolicy("region", regions))
		synctest.Wait()
		close(former.gate)
		r.after(time.Second)
		if s, _ := r.Latest(); s.Complete {
			t.Errorf("snapshot %+v, want it not to be complete: the card has not answered", s)
		}
		r.after(cfg.ReadTimeout)
		if s, _ := r.Latest(); !s.Complete {
			t.Errorf("snapshot %+v, want it to be complete: the card was given up", s)
		}
		for _, answer := range answers {
			answer()
		}
	})
}
