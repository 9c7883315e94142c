package owner_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"b-com.com/accelerator-device-plugin/daemon/control"
	"b-com.com/accelerator-device-plugin/daemon/owner"
	"b-com.com/accelerator-device-plugin/internal/privatedir"

	"b-com.com/accelerator-device-plugin/test/compare"
	"b-com.com/accelerator-device-plugin/test/must"
	"b-com.com/accelerator-device-plugin/test/privatedirtest"
)

// A daemon waits for daemons of its API whose naming differs, and not for those with the same one. It does not count
// as an owner: a driver that stops withdraws its devices before.
func TestNamings(t *testing.T) {
	for _, api := range []string{control.DevicePlugin, control.DRA} {
		t.Run(api, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				dir := privatedirtest.Dir(t)
				old := startNamed(t, dir, api, 1)
				owns := old.owns(0)
				alike := startNamed(t, dir, api, 1)
				owns = owns && alike.owns(0)
				next := startNamed(t, dir, api, 2)
				if !owns || next.owns(time.Minute) {
					t.Fatal("want that both daemons with the first naming own the node, and not the one with the second")
				}
				want := dir + "/owner-" + api + ".lock: found a daemon whose settings give the devices other names, want none"
				if err := next.Waiting(); next.WaitsFor() != owner.ForNaming || err == nil || err.Error() != want {
					t.Errorf("waits for %q, %v, want naming, %s", next.WaitsFor(), err, want)
				}
				next.logged(t, "info owner.waiting "+api+" naming 0", "info owner.waiting "+api+" naming 60000")
				alike.Leave(t.Context(), func(context.Context) error { t.Error("withdrawn too early"); return nil })
				withdrawn := false
				old.Leave(t.Context(), func(context.Context) error {
					withdrawn = !next.owns(time.Second)
					return nil
				})
				if !withdrawn {
					t.Error("the last daemon with the first naming does not withdraw before the next one starts")
				}
				if !next.owns(200*time.Millisecond) || next.WaitsFor() != "" {
					t.Error("the daemon with the second naming does not own the node within 200 ms")
				}
				next.Kill()
			})
		})
	}
}

// The kubelet may not have recorded yet what a device plugin gave out just before its end.
func TestAwaitsRecord(t *testing.T) {
	for name, tt := range map[string]struct {
		old, next string
		within    time.Duration // after the last attempt at which the old daemon was there, or a bit sooner
	}{
		"another naming":        {control.DevicePlugin, control.DevicePlugin, time.Second},
		"DRA after a plugin":    {control.DevicePlugin, control.DRA, time.Second},
		"another naming in DRA": {control.DRA, control.DRA, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				dir := privatedirtest.Dir(t)
				old := startNamed(t, dir, tt.old, 1)
				owns := old.owns(0)
				next := startNamed(t, dir, tt.next, 2)
				if !owns || next.owns(time.Second) {
					t.Fatal("the second daemon does not wait for the first one")
				}
				old.Kill()
				if tt.within > 0 && next.owns(tt.within-200*time.Millisecond) {
					t.Errorf("owns the node sooner than %v after the device plugin", tt.within)
				}
				if !next.owns(400 * time.Millisecond) {
					t.Error("the next daemon does not own the node")
				}
				next.Kill()
			})
		})
	}

	synctest.Test(t, func(t *testing.T) { // the settings of a daemon change, while another one runs
		dir := privatedirtest.Dir(t)
		a := startNamed(t, dir, control.DevicePlugin, 1)
		owns := a.owns(0)
		b := startNamed(t, dir, control.DevicePlugin, 1)
		if !owns || !b.owns(0) || a.Rename(t.Context(), 2) {
			t.Fatal("want two daemons that own the node under one naming")
		}
		b.Kill()
		time.Sleep(900 * time.Millisecond)
		if a.Rename(t.Context(), 2) {
			t.Error("is renamed sooner than a second after the other daemon")
		}
		time.Sleep(200 * time.Millisecond)
		if !a.Rename(t.Context(), 2) {
			t.Error("is not renamed")
		}
		a.Kill()
	})
}

// A daemon without a naming, as of an older version, may offer the devices under any name.
func TestWithoutNaming(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := privatedirtest.Dir(t)
		dir := must.Value(privatedir.OpenDir(path, true))(t)
		defer dir.Close()
		old := must.Value(privatedir.TryLock(dir, "owner-devicePlugin.lock", privatedir.Shared))(t)
		next := start(t, path, control.DevicePlugin)
		if next.owns(time.Second) || next.WaitsFor() != owner.ForNaming {
			t.Errorf("waits for %q, want naming", next.WaitsFor())
		}
		must.Succeed(t, old.Release())
		if !next.owns(time.Second) {
			t.Error("the daemon does not own the node after the older one has ended")
		}
		next.Kill()
	})
}

// A daemon changes its naming once it is alone. No other daemon owns the node before the old names are withdrawn.
func TestRename(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := privatedirtest.Dir(t)
		a := start(t, dir, control.DRA)
		owns := a.owns(0)
		b := start(t, dir, control.DRA)
		if !owns || !b.owns(0) {
			t.Fatal("two drivers do not own the node")
		}
		a.lines()
		for range 2 {
			if a.Rename(t.Context(), 2) || a.WaitsFor() != owner.ForSettings || a.Naming() != 1 {
				t.Fatalf("has naming %d and waits for %q, want the former naming, and to wait", a.Naming(), a.WaitsFor())
			}
		}
		a.logged(t, "info owner.waiting dra settings 0")
		if !a.Rename(t.Context(), 1) || a.WaitsFor() != "" {
			t.Errorf("waits for %q although the settings are the former ones again", a.WaitsFor())
		}
		b.Leave(t.Context(), nothing)
		former := start(t, dir, control.DRA)
		if !former.owns(0) {
			t.Fatal("a driver with the same naming waits")
		}
		next := startNamed(t, dir, control.DRA, 2)
		time.Sleep(10 * time.Millisecond) // so that neither waits for an attempt of the other
		former.Leave(t.Context(), nothing)
		if !a.Rename(t.Context(), 2) || a.Naming() != 2 {
			t.Fatal("the driver is alone, and is not renamed")
		}
		time.Sleep(10 * time.Millisecond)
		former = start(t, dir, control.DRA)
		if former.owns(time.Second) || next.owns(0) {
			t.Error("a driver owns the node before the devices are renamed")
		}
		a.Renamed()
		if former.owns(time.Second) || !next.owns(0) {
			t.Error("want that the driver with the new naming owns the node, and not the one with the former")
		}
		// A naming that was never used does not last.
		next.Leave(t.Context(), nothing)
		if !a.Rename(t.Context(), 3) || !a.Rename(t.Context(), 1) {
			t.Fatal("the driver is alone, and is not renamed")
		}
		a.Renamed()
		if !former.owns(time.Second) {
			t.Error("the driver with the former naming waits")
		}
		// One that waits may change its mind.
		late := startNamed(t, dir, control.DRA, 4)
		if late.owns(time.Second) {
			t.Error("a driver with a fourth naming owns the node")
		}
		late.wants.Store(1)
		if !late.owns(time.Second) || late.Naming() != 1 {
			t.Error("the settings of the driver are those of the others now, and it waits")
		}
		for _, d := range []*daemon{a, former, late} {
			d.Kill()
		}
	})
}

// One description gives one naming. Others give others, all in the range of a mark.
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

// A device plugin that is alone, and waits for what the other one gave out last, may get its former settings again. Then
// another one with these settings does not wait.
func TestRenameTakenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := privatedirtest.Dir(t)
		a := start(t, dir, control.DevicePlugin)
		owns := a.owns(0)
		b := start(t, dir, control.DevicePlugin)
		if !owns || !b.owns(0) || a.Rename(t.Context(), 2) {
			t.Fatal("want that two device plugins own the node, and neither is renamed")
		}
		b.Leave(t.Context(), nothing)
		if a.Rename(t.Context(), 2) || !a.Rename(t.Context(), 1) {
			t.Fatal("want that the new naming waits for the record, and that the former one does not")
		}
		former := start(t, dir, control.DevicePlugin)
		if !former.owns(time.Second) {
			t.Error("a device plugin with the same naming waits")
		}
		a.Kill()
		former.Kill()
	})
}
