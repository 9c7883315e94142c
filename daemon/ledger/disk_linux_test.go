package ledger_test

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"

	"b-com.com/accelerator-device-plugin/daemon/ledger"
	"b-com.com/accelerator-device-plugin/internal/latest"
	"b-com.com/accelerator-device-plugin/internal/logevent"
	"b-com.com/accelerator-device-plugin/internal/metrics"
	"b-com.com/accelerator-device-plugin/inventory"
	"b-com.com/accelerator-device-plugin/test/compare"
	"b-com.com/accelerator-device-plugin/test/eventtest"
	"b-com.com/accelerator-device-plugin/test/must"
	"b-com.com/accelerator-device-plugin/test/patient"
	"b-com.com/accelerator-device-plugin/test/privatedirtest"
)

// If the disk is full or read-only, the only consequences are lost history and one log line.
func TestFullAndReadOnlyDisk(t *testing.T) {
	for _, tc := range []struct{ name, spoil, mend, want string }{
		{"full", "nr_inodes=4", "nr_inodes=20", "no space left on device"},
		{"read-only", "ro", "rw", "read-only file system"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			parent := privatedirtest.Dir(t)
			if err := syscall.Mount("tmpfs", parent, "tmpfs", 0, "mode=700,nr_inodes=20"); errors.Is(err, syscall.EPERM) {
				t.Skip("not allowed to mount a file system")
			} else if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { must.Succeed(t, syscall.Unmount(parent, syscall.MNT_DETACH)) })
			remount := func(options string) {
				t.Helper()
				flags := uintptr(syscall.MS_REMOUNT)
				if options == "ro" {
					flags |= syscall.MS_RDONLY
				}
				if options == "ro" || options == "rw" {
					options = ""
				}
				must.Succeed(t, syscall.Mount("", parent, "", flags, options))
			}
			synctest.Test(t, func(t *testing.T) {
				r := &rig{T: t, dir: parent + "/state", exempt: latest.New("")}
				r.start(healthy("3b:00.0"), healthy("5e:00.0"))
				wait(time.Second)
				r.stop()
				remount(tc.spoil)
				r.startAndSettle(healthy("3b:00.0"))
				compare.Equal(t, "missing", "5e:00.0", r.missing())
				for range 600 {
					r.list(broken("3b:00.0"))
					r.list(healthy("3b:00.0"))
					wait(time.Second)
				}
				lines := r.logs.FilterField(logevent.LedgerUnavailable).All()
				if len(lines) != 1 || !strings.Contains(fmt.Sprint(lines[0].ContextMap()["error"]), tc.want) {
					t.Errorf("log %v, want one line with %q", lines, tc.want)
				}
				compare.Equal(t, "changes", 1200, r.ledger.Counts()[0].HealthChanges)
				remount(tc.mend)
				wait(time.Minute)
				r.expectFile(`"healthChanges":1200`) // including changes from when it couldn't be written
				r.stop()
			})
		})
	}
}

// A state directory that hangs delays startup by 5 s, and nothing after that.
func TestStateDirHangs(t *testing.T) {
	t.Parallel()
	dir := privatedirtest.Dir(t)
	must.Succeed(t, os.WriteFile(dir+"/cards.json", []byte(good), 0o600))
	release := privatedirtest.Hang(t, dir)
	core, logs := eventtest.Observed(t)
	m := metrics.New("test")
	began := time.Now()
	l := ledger.Open(t.Context(), ledger.Config{Dir: dir, Metrics: m}, zap.New(core))
	if took := time.Since(began); took > 10*time.Second || len(l.Remembered()) != 0 {
		t.Errorf("opened after %s with %v, want an empty ledger after 5 s", took, l.Remembered())
	}
	r := &rig{T: t, dir: dir, ledger: l, logs: logs, devices: latest.New(inventory.Snapshot{}), exempt: latest.New("")}
	r.run()
	publish := func(version uint64, d *inventory.Device) {
		r.devices.Store(inventory.Snapshot{Version: version, Devices: []*inventory.Device{d}, Complete: true})
	}
	publish(1, healthy("3b:00.0"))
	changes := func(want int) {
		t.Helper()
		patient.Await(t, "changes", func() error {
			if all := l.Counts(); len(all) != 1 || all[0].HealthChanges != want {
				return fmt.Errorf("found %v, want one card with %d changes", all, want)
			}
			return nil
		})
	}
	changes(0)
	publish(2, broken("3b:00.0"))
	changes(1)
	compare.Equal(t, "lines of the log", 1, logs.FilterField(logevent.LedgerUnavailable).Len())
	expectStored(t, m, 0)
	began = time.Now()
	r.stop()
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("the end took %s, want at most about a second", took)
	}
	release()
	patient.Await(t, "the file", func() error { _, err := os.Stat(dir + "/cards.json"); return err })
}
