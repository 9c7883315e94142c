package deviceplugin_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"b-com.com/accelerator-device-plugin/daemon/config"
	"b-com.com/accelerator-device-plugin/test/cmdtest"
	"b-com.com/accelerator-device-plugin/test/patient"
)

// A card that was pulled while no daemon was running is missing until it is plugged in again or forgotten.
func TestMissingCard(t *testing.T) {
	t.Parallel()
	d := startDaemon(t, nil)
	d.awaitLine("control.served")
	d.plug(cardA, cardB)
	d.await("plugged", health{"3b:00.0": true, "3b:00.0-p1": true, "5e:00.0": true})
	d.do(d.stop())
	d.do(d.node.Unplug(cardB.Address))
	d.run()
	d.awaitLine("control.served")
	d.await("the others are offered at once", health{"3b:00.0": true, "3b:00.0-p1": true})
	d.awaitLine("device.missing", "5e:00.0")
	rows := d.asked("missing")
	if last := rows[len(rows)-1]; len(rows) != 3 || last.ID != "5e:00.0" || last.Health != "unhealthy" || !cmp.Equal(last.Reasons, []string{"missing"}) ||
		last.PCIAddress != "0000:5e:00.0" || last.PCIID == "" || last.MissingSince == nil || time.Since(*last.MissingSince) > patient.Limit {
		t.Errorf("devices: found %+v, want the missing card at the end", rows)
	}
	d.shows("\n5e:00.0     unhealthy  -       missing")
	patient.Await(t, "check", func() error {
		if got, code := d.ask("check"); code != 1 || !strings.HasPrefix(got, "1 of 2 cards: 5e:00.0 missing since ") {
			return fmt.Errorf("check: exit code %d, output %q", code, got)
		}
		return nil
	})
	out, errs, code := cmdtest.Output(t, "can-pull", "5e:00.0", "--scan", "--sysfs-root", d.cfg.SysfsRoot, "--dev-root", d.cfg.DevRoot,
		"--kubelet-dir", d.cfg.KubeletDir, "--pod-resources-socket", d.cfg.PodResourcesSocket)
	if code != 1 || !strings.HasPrefix(out, "unknown\nno card in slot 5e:00.0 of this node, which has 3b:00.0: ") {
		t.Errorf("can-pull of the missing card: exit code %d, output %q, errors %q", code, out, errs)
	}
	d.awaitSeries(`accelerator_card_missing{card="5e:00.0"} 1`)
	d.awaitSeries("accelerator_ledger_stored 1")
	for _, step := range []struct {
		want string
		code int
		args []string
	}{
		{"accelerator-device-plugin: SOCKET: card: found 3b:00.0, which is present, want one that is absent\n", 1, []string{"forget", "3b:00.0"}},
		{"accelerator-device-plugin: DEVICE: found \"5e:00.0\", want a device of this node (3b:00.0, 3b:00.0-p1), or --absent to cordon the next card in this slot\n", 1,
			[]string{"cordon", "5e:00.0", "--why", "x"}},
	} {
		if got, code := d.ask(step.args...); got != step.want || code != step.code {
			t.Errorf("%v: exit code %d, output %q, want %q", step.args, code, got, step.want)
		}
	}
	d.plug(cardB)
	d.awaitLine("device.returned", "5e:00.0")
	d.await("returned", health{"3b:00.0": true, "3b:00.0-p1": true, "5e:00.0": true})
	d.awaitSeries(`accelerator_card_missing{card="5e:00.0"} 0`)

	d.do(d.node.Unplug(cardB.Address))
	d.await("pulled", health{"3b:00.0": true, "3b:00.0-p1": true})
	d.awaitSeries(`accelerator_card_removals_total{card="5e:00.0"} 1`)
	if got, code := d.ask("forget", "0000:5E:00.0", "--by", "alice"); got != "5e:00.0 forgotten\n" || code != 0 {
		t.Errorf("forget: exit code %d, output %q", code, got)
	}
	d.awaitLine("card.forgotten", "5e:00.0", "by:alice")
	if got, code := d.ask("forget", "5e:00.0"); !strings.Contains(got, "want one that this node remembers: 3b:00.0\n") || code != 1 {
		t.Errorf("forget again: exit code %d, output %q", code, got)
	}
}

// A quarantined device stays in quarantine across restarts, unless its card is forgotten.
func TestQuarantineOverRestart(t *testing.T) {
	t.Parallel()
	d := startDaemon(t, func(c *config.Config) { c.FlapLimit, c.HealthInterval = 2, 50*time.Millisecond })
	d.awaitLine("control.served")
	d.plug(cardA)
	healthy, broken := health{"3b:00.0": true, "3b:00.0-p1": true}, health{"3b:00.0": false, "3b:00.0-p1": true}
	d.await("plugged", healthy)
	d.do(d.node.Break("3b:00.0", "port-ap6"))
	d.await("broken", broken)
	d.do(d.node.Heal("3b:00.0"))
	d.await("healed", healthy)
	d.do(d.node.Break("3b:00.0", "port-ap6"))
	d.await("broken again", broken)
	d.do(d.node.Heal("3b:00.0"))
	patient.Await(t, "its fault is gone", func() error {
		for _, r := range d.asked("healed") {
			if r.ID == "3b:00.0" && !strings.Contains(fmt.Sprint(r.Reasons), "port-ap6") {
				return nil
			}
		}
		return fmt.Errorf("found %v", d.asked("healed"))
	})
	d.await("in quarantine", broken)
	patient.Await(t, "the ledger", func() error {
		text, err := os.ReadFile(filepath.Join(d.cfg.StateDir, "cards.json"))
		if err == nil && !strings.Contains(string(text), `"quarantined":true`) {
			err = fmt.Errorf("found %s", text)
		}
		return err
	})
	for range 2 {
		d.do(d.stop())
		d.run()
		d.awaitLine("control.served")
		d.await("after a restart", broken)
		d.shows("3b:00.0     unhealthy  -       flapping")
	}

	d.do(d.stop())
	d.do(d.node.Unplug(cardA.Address))
	d.run()
	d.awaitLine("device.missing", "3b:00.0")
	if got, code := d.ask("forget", "3b:00.0"); code != 0 {
		t.Errorf("forget: exit code %d, output %q", code, got)
	}
	d.plug(cardA)
	d.await("forgotten", healthy)
}
