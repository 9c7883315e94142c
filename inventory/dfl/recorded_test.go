package dfl_test

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"b-com.com/accelerator-device-plugin/internal/event/eventtest"
	"b-com.com/accelerator-device-plugin/internal/metrics"
	"b-com.com/accelerator-device-plugin/internal/sysfs"
	"b-com.com/accelerator-device-plugin/inventory"
	"b-com.com/accelerator-device-plugin/inventory/dfl"
)

// remark matches a line in the header of a board that `make fixtures` recorded. Such a line
// describes an attribute that cannot be a text file.
var remark = regexp.MustCompile(`(?m)^  (sys/\S+) (answers|begins|does not answer) ?(.*)$`)

// recorded unfolds such a board, and makes the files of its header: binary files, and FIFOs for
// attributes that do not answer. It returns the ports whose afu_id fails with EBUSY. Other errors
// than ENOENT are not supported.
func recorded(t testing.TB, board string) (host sysfs.Host, busy []string) {
	t.Helper()
	host = node(t, board)
	text, err := os.ReadFile(filepath.Join("../../testdata/sysfs", board+".txtar"))
	if err != nil {
		t.Fatal(err)
	}
	head, _, _ := strings.Cut(string(text), "\n-- ")
	for _, m := range remark.FindAllStringSubmatch(head, -1) {
		path := filepath.Join(filepath.Dir(host.Sys), m[1])
		switch {
		case m[2] == "begins":
			err = os.WriteFile(path, bytesOf(t, m[3]), 0o644)
		case m[2] == "does not answer":
			err = syscall.Mkfifo(path, 0o600)
		case filepath.Base(path) == "afu_id" && m[3] == "EBUSY":
			busy = append(busy, filepath.Base(filepath.Dir(path)))
		case m[3] != "ENOENT":
			t.Errorf("%s: found answer %s, want EBUSY of an afu_id, or ENOENT", m[1], m[3])
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return host, busy
}

// programmed is the family on a host where the afu_id of some ports fails with EBUSY. A plain file
// cannot return that error, so Read changes the readings of these ports as package port would (see
// its TestTakeAFU).
type programmed struct {
	dfl.Family
	busy []string
}

func (f programmed) Read(host sysfs.Host, card string) (inventory.Reading, error) {
	r, err := f.Family.Read(host, card)
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

// bytesOf parses hexadecimal bytes that are separated by blanks.
func bytesOf(t testing.TB, hex string) []byte {
	t.Helper()
	var b []byte
	for _, digits := range strings.Fields(hex) {
		v, err := sysfs.ParseMask("0x" + digits)
		if err != nil {
			t.Fatal(err)
		}
		b = append(b, byte(v))
	}
	return b
}

// publishedDevices returns the devices of the first complete snapshot of an inventory.
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
		if err := <-done; err != nil {
			t.Error(err)
		}
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
