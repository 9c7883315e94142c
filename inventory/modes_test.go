package inventory_test

import (
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"b-com.com/accelerator-device-plugin/internal/sysfs"
	"b-com.com/accelerator-device-plugin/inventory"
)

// modeRig runs an inventory with one card's port, and returns another mode's family, which reads a region on that card.
func modeRig(t *testing.T, d *fakeKubelet) (*rig, *fakeFamily) {
	ports, regions := newFakeFamily("ports"), newFakeFamily("regions")
	ports.set(cardA, good(0, 0))
	region := good(0, 0)
	region.Name = "dfl-fme.0"
	regions.set(cardA, region)
	cfg := withKubelet(d)
	cfg.Policy = modePolicy("single")
	return start(t, cfg, ports), regions
}

func modePolicy(name string, families ...inventory.Family) inventory.Policy {
	return inventory.Policy{
		Mode: name, Families: families,
		Name: func(*inventory.Device) (string, error) { return name, nil },
	}
}

// When the mode changes, devices are withheld before asking about their holders. Otherwise the answer could miss a
// container that is given a device just after the question.
func TestModeChangeWithholdsFirst(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d := newFakeKubelet()
		r, regions := modeRig(t, d)
		r.want("before", map[string]string{"3b:00.0": "healthy[]"})
		d.set(func() { d.takes = 100 * time.Millisecond })
		r.Inventory.Use(modePolicy("region", regions))
		synctest.Wait()
		r.want("the mode has changed, holders are not known yet", map[string]string{"3b:00.0": "unhealthy[moving]"})
		r.after(100 * time.Millisecond)
		r.want("no holder", map[string]string{"3b:00.0": "healthy[]"})
	})
}

// slowOutline is a family whose outlines block until its gate is closed.
type slowOutline struct {
	*fakeFamily
	gate chan struct{}
}

func (s slowOutline) Outline(host sysfs.Host, card string) (inventory.Reading, error) {
	<-s.gate
	return s.fakeFamily.Outline(host, card)
}

// A card's outline that was read through the previous mode's families is discarded.
func TestOutlineOfTheFormerMode(t *testing.T) {
	bubble(t, func(t *testing.T) {
		ports, regions := newFakeFamily("ports"), newFakeFamily("regions")
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
			t.Errorf("snapshot %+v, want one that is not complete: the card has not answered", s)
		}
		r.after(cfg.ReadTimeout)
		if s, _ := r.Latest(); !s.Complete {
			t.Errorf("snapshot %+v, want one that is complete: the card was given up", s)
		}
		for _, answer := range answers {
			answer()
		}
	})
}

// slowCards is a family whose listings block until its gate is closed.
type slowCards struct {
	*fakeFamily
	gate chan struct{}
}

func (s slowCards) Cards(host sysfs.Host) ([]string, error) {
	<-s.gate
	return s.fakeFamily.Cards(host)
}

// A check that was requested in the previous mode reads the card through the new mode's families, even though nothing
// has changed.
func TestCheckOfTheFormerMode(t *testing.T) {
	bubble(t, func(t *testing.T) {
		ports, regions := observing{newFakeFamily("ports"), filepath.Join(t.TempDir(), "observed")}, slowCards{newFakeFamily("regions"), make(chan struct{})}
		ports.write(t, "0")
		ports.set(cardA, good(0, 0), good(1, 1))
		regions.set(cardA, good(0, 0))
		cfg := testConfig
		cfg.Policy = modePolicy("single")
		r := startFamilies(t, sysfs.Host{}, cfg, ports.fakeFamily, ports)
		r.after(cfg.HealthInterval - time.Second)
		answer := ports.hang(cardA)
		r.hint(cardA)
		r.after(time.Second) // the tick requests a check after this reading
		answers := regions.hang(cardA)
		r.Inventory.Use(modePolicy("region", regions))
		synctest.Wait()
		answer()
		synctest.Wait()
		close(regions.gate)
		r.after(time.Second)
		s, _ := r.Latest()
		for _, d := range s.Devices {
			if d.Family == "ports" && d.OfferedAs == "region" {
				t.Errorf("%s: found a port that is offered as a region, %s", d.ID, d.Health)
			}
		}
		answers()
		r.after(cfg.RecoveryHold)
		r.want("the card answers", map[string]string{"3b:00.0": "healthy[]"})
	})
}
