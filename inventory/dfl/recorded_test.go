package dfl_test

import (
	"context"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"b-com.com/accelerator-device-plugin/internal/metrics"
	"b-com.com/accelerator-device-plugin/internal/sysfs"
	"b-com.com/accelerator-device-plugin/inventory"
	"b-com.com/accelerator-device-plugin/inventory/port"
	"b-com.com/accelerator-device-plugin/test/board"
	"b-com.com/accelerator-device-plugin/test/eventtest"
	"b-com.com/accelerator-device-plugin/test/must"
)

// recorded unpacks a board that `make fixtures` recorded. It returns the ports whose afu_id fails with EBUSY. Except
// for ENOENT, other recorded errors aren't supported. Errors on XRT cards don't matter, because those aren't DFL cards.
func recorded(t testing.TB, name string) (host sysfs.Host, busy []string) {
	t.Helper()
	root := t.TempDir()
	failing := must.Value(board.UnfoldRecorded(root, filepath.Join("../../testdata/sysfs", name+".txtar")))(t)
	for path, errno := range failing {
		switch {
		case filepath.Base(path) == "afu_id" && errno == "EBUSY":
			busy = append(busy, filepath.Base(filepath.Dir(path)))
		case errno != "ENOENT" && !strings.Contains(name, "-xrt-"):
			t.Errorf("%s: found answer %s, want EBUSY of an afu_id, or ENOENT", path, errno)
		}
	}
	return sysfs.Host{Sys: root + "/sys", Dev: root + "/dev", Simulated: true}, busy
}

// programmed is the family on a host where some ports' afu_id fails with EBUSY. A regular file can't return that error,
// so Read changes what was read from these ports the way package port would (see its TestTakeAFU).
type programmed struct {
	port.Layout
	busy []string
}

func (f programmed) Read(host sysfs.Host, card string) (inventory.Reading, error) {
	r, err := f.Layout.Read(host, card)
	rows := f.Rows()
	row := rows[slices.IndexFunc(rows, func(r inventory.Row) bool { return r.Name == "reprogramming" })]
	for i := range r.Units {
		if p := &r.Units[i]; slices.Contains(f.busy, p.Name) {
			p.AFUIDKnown = false
			p.Conditions = append(p.Conditions, inventory.Condition{Reason: row.Name, Row: row.Name, Health: row.Health, Passing: true})
		}
	}
	return r, err
}

// publishedDevices returns the devices in an inventory's first complete snapshot.
func publishedDevices(t *testing.T, host sysfs.Host, family inventory.Family) []*inventory.Device {
	t.Helper()
	inv := inventory.New(inventory.Config{
		ResyncInterval: time.Hour, HealthInterval: time.Hour, ReprogramTimeout: time.Hour, ReadTimeout: 2 * time.Second,
		Metrics: metrics.New("test"),
		Policy:  inventory.Policy{Families: []inventory.Family{family}},
	}, host, eventtest.Log(t))
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- inv.Run(ctx) }()
	defer func() {
		cancel()
		must.Succeed(t, <-done)
	}()
	late := time.After(20 * time.Second)
	for {
		snapshot, stale := inv.Latest()
		if snapshot.Complete {
			return snapshot.Devices
		}
		select {
		case <-stale:
		case <-late:
			t.Fatal("no complete snapshot")
		}
	}
}
