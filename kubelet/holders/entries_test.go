package holders_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"b-com.com/accelerator-device-plugin/inventory"
	"b-com.com/accelerator-device-plugin/kubelet/holders"
	"b-com.com/accelerator-device-plugin/sim/simkubelet"
	"b-com.com/accelerator-device-plugin/test/must"
	"b-com.com/accelerator-device-plugin/test/patient"
	"b-com.com/accelerator-device-plugin/test/privatedirtest"
)

// While no device plugin is running, nothing makes the kubelet rewrite its checkpoint. Once a driver has waited until
// an entry no longer counts, it passes this on to the next driver, for as long as the checkpoint stays the same.
func TestEnded(t *testing.T) {
	r := newRig(t)
	r.cfg.DRA, r.cfg.StateDir, r.cfg.Confirm, r.cfg.Grace = true, privatedirtest.Dir(t), time.Millisecond, time.Millisecond
	r.write(t, fileOf(t, "uid", port, "3b:00.0", "dfl-port.0"))
	held := func(s *holders.Source) bool { return len(s.Ask(t.Context()).Of["3b:00.0"]) > 0 }
	first := holders.New(r.cfg)
	if record, _ := first.Record(t.Context()); !held(first) || len(record) == 0 {
		t.Fatal("an entry that nothing explains does not count")
	}
	for held(first) {
	}
	r.cfg.Grace = time.Hour
	next := holders.New(r.cfg)
	if record, _ := next.Record(t.Context()); held(next) || len(record) > 0 {
		t.Error("the entry counts again when the next driver starts")
	}
	r.write(t, fileOf(t, "uid", port, "3b:00.0", "dfl-port.0"))
	if !held(holders.New(r.cfg)) {
		t.Error("the entry does not count although the kubelet has written it again")
	}
	for _, text := range []string{"", "{", `{"version":2}`, `{"version":1,"ended":[]}`} {
		must.Succeed(t, os.WriteFile(filepath.Join(r.cfg.StateDir, "entries.json"), []byte(text), 0o600))
		if !held(holders.New(r.cfg)) {
			t.Errorf("file %q: the entry does not count", text)
		}
	}
}

// A device plugin exits before it has noticed that a container ended. The driver that takes over learns that the
// kubelet listed this container at some point. So it isn't an init container, and the driver doesn't have to wait out
// the grace period.
func TestNamedBefore(t *testing.T) {
	r := newRig(t)
	r.cfg.StateDir, r.cfg.Confirm, r.cfg.Grace = privatedirtest.Dir(t), time.Millisecond, time.Hour
	r.write(t, fileOf(t, "uid", port, "3b:00.0", "dfl-port.0"))
	plugin := holders.New(r.cfg)
	r.cfg.DRA = true
	held := func(s *holders.Source) error {
		if of := s.Ask(t.Context()).Of["3b:00.0"]; len(of) > 0 {
			return fmt.Errorf("it is held: %+v", of)
		}
		return nil
	}
	if plugin.Ask(t.Context()); held(holders.New(r.cfg)) == nil {
		t.Fatal("an entry that nothing explains does not count")
	}
	r.Hold("ns", "pod", "main", port, "3b:00.0")
	plugin.Ask(t.Context())
	r.Release("ns", "pod")
	driver := holders.New(r.cfg)
	if record, _ := driver.Record(t.Context()); len(record) == 0 || held(driver) == nil {
		t.Error("one answer without the container is enough, want two")
	}
	patient.Await(t, "the end of the container", func() error { return held(driver) })
	r.write(t, fileOf(t, "uid", port, "3b:00.0", "dfl-port.0"))
	next := holders.New(r.cfg)
	for range 20 {
		if held(next) == nil {
			t.Fatal("the entry does not count although the kubelet has written it again")
		}
	}
}

// Recent doesn't write anything, because the driver calls it before it responds to the kubelet. The next Ask does.
func TestRecentWritesNothing(t *testing.T) {
	r := newRig(t)
	r.cfg.StateDir, r.cfg.DRA = privatedirtest.Dir(t), true
	r.cfg.Injected = openInjected(t, r.cfg.StateDir)
	must.Succeed(t, r.cfg.Injected.Add(t.Context(), map[string][]string{"5e:00.0": {"dfl-port.1"}}))
	r.write(t, fileOf(t, "uid", port, "3b:00.0", "dfl-port.0"))
	r.Hold("ns", "pod", "main", port, "3b:00.0")
	s := holders.New(r.cfg)
	for _, step := range []struct {
		ask               func(context.Context) inventory.Holdings
		injected, entries bool
	}{{s.Recent, true, false}, {s.Ask, false, true}} {
		step.ask(t.Context())
		_, noInjected := os.Stat(filepath.Join(r.cfg.StateDir, "injected.json"))
		_, noEntries := os.Stat(filepath.Join(r.cfg.StateDir, "entries.json"))
		if (noInjected == nil) != step.injected || (noEntries == nil) != step.entries {
			t.Errorf("injected.json: %v, entries.json: %v", noInjected, noEntries)
		}
	}
}

// A source fails when the plugin asks it for the last time and when drivers ask it for the first time. What the plugin
// wrote isn't lost.
func TestNamedBeforeFailure(t *testing.T) {
	for _, tc := range []struct {
		name string
		fail func(*testing.T, *rig)
	}{
		{"the kubelet", func(_ *testing.T, r *rig) { r.Behave(simkubelet.PodBehaviour{Fail: "too many calls"}) }},
		{"the checkpoint", func(t *testing.T, r *rig) {
			must.Succeed(t, os.Rename(r.path, r.path+"2"), os.Mkdir(r.path, 0o700))
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := newRig(t)
			r.cfg.StateDir, r.cfg.Confirm, r.cfg.Grace = privatedirtest.Dir(t), time.Millisecond, time.Hour
			first, second := fileOf(t, "first", port, "3b:00.0", "dfl-port.0"), fileOf(t, "second", port, "5e:00.0", "dfl-port.1")
			r.write(t, strings.TrimSuffix(first, "]}}")+","+strings.TrimPrefix(second, `{"Data":{"PodDeviceEntries":[`))
			r.Hold("ns", "first", "main", port, "3b:00.0")
			r.Hold("ns", "second", "main", port, "5e:00.0")
			plugin := holders.New(r.cfg)
			plugin.Ask(t.Context())
			r.Release("ns", "first")
			for len(plugin.Ask(t.Context()).Of["3b:00.0"]) > 0 {
			}
			r.Release("ns", "second")

			tc.fail(t, r)
			plugin.Ask(t.Context())
			r.cfg.DRA = true
			holders.New(r.cfg).Ask(t.Context()) // this driver exits right away
			driver := holders.New(r.cfg)
			driver.Ask(t.Context())
			r.Behave(simkubelet.PodBehaviour{})
			if _, err := os.Stat(r.path + "2"); err == nil {
				must.Succeed(t, os.Remove(r.path), os.Rename(r.path+"2", r.path))
			}
			patient.Await(t, "the end of the second container", func() error {
				if of := driver.Ask(t.Context()).Of["5e:00.0"]; len(of) > 0 {
					return fmt.Errorf("it is held: %+v", of)
				}
				return nil
			})
		})
	}
}

// The kubelet has restarted since it listed the container to the plugin, and doesn't list any pods now, perhaps because
// it doesn't know them yet. So what the previous kubelet listed doesn't count, even if the plugin has asked the new
// one.
func TestNamedByFormerKubelet(t *testing.T) {
	for _, asks := range []int{0, 3} {
		r := newRig(t)
		r.cfg.StateDir, r.cfg.Confirm, r.cfg.Grace = privatedirtest.Dir(t), time.Millisecond, time.Hour
		r.write(t, fileOf(t, "uid", port, "3b:00.0", "dfl-port.0"))
		plugin := holders.New(r.cfg)
		r.Hold("ns", "pod", "main", port, "3b:00.0")
		plugin.Ask(t.Context())
		plugin.Ask(t.Context())
		r.Release("ns", "pod")
		r.started(t, 9*time.Second) // the plugin knows that this is too early
		for range asks {
			r.write(t, fileOf(t, "uid", port, "3b:00.0", "dfl-port.0"))
			plugin.Ask(t.Context())
		}
		r.cfg.DRA = true
		driver := holders.New(r.cfg)
		patient.Elapse(t, 1100*time.Millisecond)
		for range 5 {
			if h := driver.Ask(t.Context()); len(h.Of["3b:00.0"]) == 0 {
				t.Fatalf("the plugin has asked %d times: the device is free", asks)
			}
		}
	}
}

// The driver considers an init container ended after the grace period. A device plugin doesn't rely on that, because it
// can make the kubelet rewrite the checkpoint.
func TestEndedForPlugin(t *testing.T) {
	r := newRig(t)
	r.cfg.StateDir, r.cfg.Confirm, r.cfg.Grace, r.cfg.DRA = privatedirtest.Dir(t), time.Millisecond, time.Millisecond, true
	r.write(t, fileOf(t, "uid", port, "3b:00.0", "dfl-port.0"))
	for driver := holders.New(r.cfg); len(driver.Ask(t.Context()).Of["3b:00.0"]) > 0; {
	}
	r.cfg.DRA, r.cfg.Refresh = false, func() bool { return false } // not registered yet
	plugin := holders.New(r.cfg)
	if record, err := plugin.Record(t.Context()); len(record) == 0 || err != nil || len(plugin.Ask(t.Context()).Of["3b:00.0"]) == 0 {
		t.Errorf("record %v, %v, want the device in it and in the first answer", record, err)
	}
}

// If the file would get too long, the devices with the most containers are left out, so that the next daemon can read
// it.
func TestEndedTooLong(t *testing.T) {
	devices := map[string][]string{}
	for i := range 200 {
		key := fmt.Sprintf("example.com/vf/3b:%02x.%x", i/8, i%8)
		for j := range 460 {
			devices[key] = append(devices[key], fmt.Sprintf("6c2f6c1e-5d4b-4c1c-9b86-1f2e3d4c5b6a/init-container-%d", j))
		}
	}
	ours := port + "/3b:00.0"
	devices[ours] = []string{"uid/main"}
	got, err := holders.RewriteEnded(privatedirtest.Dir(t), devices)
	if err != nil || len(got) < 100 || len(got) == len(devices) || len(got[ours]) != 1 {
		t.Errorf("found %d of %d devices, %v of %s (%v), want those that fit, and this one", len(got), len(devices), got[ours], ours, err)
	}
}
