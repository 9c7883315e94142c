package owner_test

import (
	"context"
	"testing"
	"time"

	"b-com.com/accelerator-device-plugin/daemon/control"
	"b-com.com/accelerator-device-plugin/daemon/owner"
	"b-com.com/accelerator-device-plugin/internal/privatedir"
	"b-com.com/accelerator-device-plugin/test/compare"
	"b-com.com/accelerator-device-plugin/test/must"
)

// A daemon waits for daemons of its API that have a different naming, but not for those with the same one. While it
// waits, it doesn't count as an owner, so the last driver with the old naming withdraws its devices when it stops.
func TestNamings(t *testing.T) {
	for _, api := range []string{control.DevicePlugin, control.DRA} {
		t.Run(api, func(t *testing.T) {
			onNode(t, func(n *node) {
				old := n.owner(api)
				alike := n.owner(api)
				next := n.start(api, 2)
				next.waits(time.Minute)
				want := n.dir + "/owner-" + api + ".lock: found a daemon whose settings give the devices other names, want none"
				if err := next.Waiting(); next.WaitsFor() != owner.ForNaming || err == nil || err.Error() != want {
					n.Errorf("waits for %q, %v, want naming, %s", next.WaitsFor(), err, want)
				}
				next.logged("info owner.waiting "+api+" naming 0", "info owner.waiting "+api+" naming 60000")
				alike.Leave(n.Context(), func(context.Context) error { n.Error("withdrawn too early"); return nil })
				withdrawn := false
				old.Leave(n.Context(), func(context.Context) error {
					withdrawn = !next.owns(time.Second)
					return nil
				})
				if !withdrawn {
					n.Error("the last daemon with the first naming does not withdraw before the next one starts")
				}
				next.takes(200 * time.Millisecond)
				compare.Equal(n, "waits for, after 200 ms", "", next.WaitsFor())
			})
		})
	}
}

// The kubelet may not have recorded what a device plugin allocated just before it exited.
func TestAwaitsRecord(t *testing.T) {
	for name, tt := range map[string]struct {
		old, next string
		within    time.Duration // after the last attempt that still found the old daemon, or slightly sooner
	}{
		"another naming":        {control.DevicePlugin, control.DevicePlugin, time.Second},
		"DRA after a plugin":    {control.DevicePlugin, control.DRA, time.Second},
		"another naming in DRA": {control.DRA, control.DRA, 0},
	} {
		t.Run(name, func(t *testing.T) {
			onNode(t, func(n *node) {
				old := n.owner(tt.old)
				next := n.start(tt.next, 2)
				next.waits(time.Second)
				old.Kill()
				if tt.within > 0 && next.owns(tt.within-200*time.Millisecond) {
					n.Errorf("owns the node sooner than %v after the device plugin", tt.within)
				}
				next.takes(400 * time.Millisecond)
			})
		})
	}

	onNode(t, func(n *node) { // a daemon's settings change while another one is running
		a := n.owner(control.DevicePlugin)
		b := n.owner(control.DevicePlugin)
		if a.Rename(n.Context(), 2) {
			n.Fatal("want two daemons that own the node under one naming")
		}
		b.Kill()
		time.Sleep(900 * time.Millisecond)
		if a.Rename(n.Context(), 2) {
			n.Error("is renamed sooner than a second after the other daemon")
		}
		time.Sleep(200 * time.Millisecond)
		if !a.Rename(n.Context(), 2) {
			n.Error("is not renamed")
		}
	})
}

// A daemon without a naming, such as one of an older version, could be advertising the devices under any name.
func TestWithoutNaming(t *testing.T) {
	onNode(t, func(n *node) {
		dir := must.Value(privatedir.OpenDir(n.dir, true))(n)
		defer dir.Close()
		old := must.Value(privatedir.TryLock(dir, "owner-devicePlugin.lock", privatedir.Shared))(n)
		next := n.start(control.DevicePlugin)
		next.waits(time.Second)
		compare.Equal(n, "waits for", owner.ForNaming, next.WaitsFor())
		must.Succeed(n, old.Release())
		next.takes(time.Second)
	})
}

// A daemon changes its naming once it is the only one. No other daemon owns the node until the old names have been
// withdrawn.
func TestRename(t *testing.T) {
	onNode(t, func(n *node) {
		a := n.owner(control.DRA)
		b := n.owner(control.DRA)
		a.lines()
		for range 2 {
			if a.Rename(n.Context(), 2) || a.WaitsFor() != owner.ForSettings || a.Naming() != 1 {
				n.Fatalf("has naming %d and waits for %q, want the former naming, and to wait", a.Naming(), a.WaitsFor())
			}
		}
		a.logged("info owner.waiting dra settings 0")
		if !a.Rename(n.Context(), 1) || a.WaitsFor() != "" {
			n.Errorf("waits for %q although the settings are the former ones again", a.WaitsFor())
		}
		b.leave()
		former := n.owner(control.DRA)
		next := n.start(control.DRA, 2)
		time.Sleep(10 * time.Millisecond) // so that their attempts don't coincide
		former.leave()
		if !a.Rename(n.Context(), 2) || a.Naming() != 2 {
			n.Fatal("the driver is alone, and is not renamed")
		}
		time.Sleep(10 * time.Millisecond)
		former = n.start(control.DRA)
		former.waits(time.Second)
		next.waits(0)
		a.Renamed()
		former.waits(time.Second)
		next.takes(0)
		// A naming that was never used doesn't persist.
		next.leave()
		if !a.Rename(n.Context(), 3) || !a.Rename(n.Context(), 1) {
			n.Fatal("the driver is alone, and is not renamed")
		}
		a.Renamed()
		former.takes(time.Second)
		// A daemon can change its naming while it waits.
		late := n.start(control.DRA, 4)
		late.waits(time.Second)
		late.wants.Store(1)
		late.takes(time.Second)
		compare.Equal(n, "naming of the driver with the settings of the others", 1, late.Naming())
	})
}

// The same description always gives the same naming. Different descriptions give different namings, all within the
// valid range for a mark.
func TestNamingOf(t *testing.T) {
	of := map[owner.Naming]string{}
	for range 2 {
		for _, description := range []string{"", "a", "b", "c", "d", "e", "f", "g"} {
			n := owner.NamingOf(description)
			if other, known := of[n]; known && other != description || n < 1 || n > 1<<62 {
				t.Errorf("%q: found %d, want a number from 1 to 2^62 that %q does not have", description, n, other)
			}
			of[n] = description
		}
	}
	compare.Equal(t, "namings", 8, len(of))
}

// If a device plugin is the only one left and is waiting for the other one's last allocations to be recorded, its old
// settings can still be restored. Another plugin with the old settings then doesn't have to wait.
func TestRenameTakenBack(t *testing.T) {
	onNode(t, func(n *node) {
		a := n.owner(control.DevicePlugin)
		b := n.owner(control.DevicePlugin)
		if a.Rename(n.Context(), 2) {
			n.Fatal("want that two device plugins own the node, and neither is renamed")
		}
		b.leave()
		if a.Rename(n.Context(), 2) || !a.Rename(n.Context(), 1) {
			n.Fatal("want that the new naming waits for the record, and that the former one does not")
		}
		former := n.start(control.DevicePlugin)
		former.takes(time.Second)
	})
}
