package owner_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"b-com.com/accelerator-device-plugin/daemon/control"
	"b-com.com/accelerator-device-plugin/daemon/owner"
	"b-com.com/accelerator-device-plugin/test/eventtest"

	"b-com.com/accelerator-device-plugin/test/compare"
	"b-com.com/accelerator-device-plugin/test/must"
	"b-com.com/accelerator-device-plugin/test/privatedirtest"
)

// daemon is a daemon of an API in a bubble of synctest.
type daemon struct {
	*owner.Node
	stop  context.CancelFunc
	taken chan error
	wants atomic.Int64 // its naming
	logs  *observer.ObservedLogs
}

func start(t *testing.T, dir, api string) *daemon {
	t.Helper()
	return startNamed(t, dir, api, 1)
}

// startNamed is start with a naming.
func startNamed(t *testing.T, dir, api string, naming owner.Naming) *daemon {
	t.Helper()
	return startChecked(t, dir, api, naming, nil)
}

// startChecked is startNamed with a check of the state directory; nil: that of its file system.
func startChecked(t *testing.T, dir, api string, naming owner.Naming, check func(*os.Root) error) *daemon {
	t.Helper()
	core, logs := eventtest.Observed(t)
	ctx, stop := context.WithCancel(t.Context())
	d := &daemon{Node: owner.New(dir, api, zap.New(core)), stop: stop, taken: make(chan error, 1), logs: logs}
	d.wants.Store(int64(naming))
	if check != nil {
		d.CheckDir(check)
	}
	go func() { d.taken <- d.Take(ctx, func() owner.Naming { return owner.Naming(d.wants.Load()) }) }()
	return d
}

// owns reports whether the daemon owns the node after this time.
func (d *daemon) owns(after time.Duration) bool {
	time.Sleep(after)
	synctest.Wait()
	select {
	case err := <-d.taken:
		d.taken <- err
		return err == nil && d.Waiting() == nil
	default:
		return false
	}
}

// lines returns the new lines of the log: level, event, owner, times.
func (d *daemon) lines() (all []string) {
	for _, l := range d.logs.TakeAll() {
		f := l.ContextMap()
		line := fmt.Sprint(l.Level, " ", f["event"])
		for _, key := range []string{"owner", "reason", "lasted_ms", "retry_ms", "error"} {
			if v, ok := f[key]; ok {
				line += fmt.Sprint(" ", v)
			}
		}
		all = append(all, line)
	}
	return all
}

func (d *daemon) logged(t *testing.T, want ...string) {
	t.Helper()
	compare.Values(t, "log", want, d.lines())
}

func nothing(context.Context) error { return nil }

func files(t *testing.T, dir string) (all []string) {
	t.Helper()
	entries := must.Value(os.ReadDir(dir))(t)
	for _, e := range entries {
		all = append(all, e.Name())
	}
	return all
}

// Each API waits until the last daemon of the other one has left, and needs no more time than that.
func TestTurns(t *testing.T) {
	for _, apis := range [][2]string{{control.DevicePlugin, control.DRA}, {control.DRA, control.DevicePlugin}} {
		t.Run(apis[0], func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				dir := privatedirtest.Dir(t)
				first := start(t, dir, apis[0])
				owns := first.owns(0)
				second := start(t, dir, apis[0])
				if !owns || !second.owns(0) {
					t.Fatal("two daemons of one API do not own the node")
				}
				other := start(t, dir, apis[1])
				if other.owns(150 * time.Second) {
					t.Fatal("both APIs own the node")
				}
				want := filepath.Join(dir, "owner-"+apis[0]+".lock: found a daemon of the API "+apis[0]+", want none")
				compare.Equal(t, "Waiting", want, fmt.Sprint(other.Waiting()))
				other.logged(t, "info owner.waiting "+apis[0]+" api 0", "info owner.waiting "+apis[0]+" api 60000", "info owner.waiting "+apis[0]+" api 120000")

				first.Leave(t.Context(), func(context.Context) error {
					t.Error("devices are withdrawn although another daemon of the API runs")
					return nil
				})
				first.logged(t, "info owner.taken "+apis[0]+" 0")
				third := start(t, dir, apis[0]) // before other, which has waited longer
				if other.owns(time.Second) || !third.owns(0) {
					t.Fatal("a new daemon of the owning API has to wait")
				}
				second.Leave(t.Context(), nothing)
				late := start(t, dir, apis[0])
				third.Leave(t.Context(), func(context.Context) error {
					late.stop()
					if late.owns(time.Second) || other.owns(time.Second) {
						t.Error("the node is taken while devices are withdrawn")
					}
					return nil
				})
				if err := <-late.taken; err == nil { // it may have taken the node before third has left
					late.Leave(t.Context(), nothing)
				}
				if !other.owns(time.Second) {
					t.Error("the other API does not own the node after the last daemon has left")
				}
				other.Leave(t.Context(), nothing)
				compare.Values(t, "files", []string{"owner-devicePlugin.lock", "owner-dra.boot", "owner.lock"}, files(t, dir))
			})
		})
	}
}

// While the last daemon withdraws its devices, no other daemon owns the node, not even one of the same API.
func TestTakeWhileLeaving(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := privatedirtest.Dir(t)
		last := start(t, dir, control.DRA)
		last.owns(0)
		var next *daemon
		last.Leave(t.Context(), func(ctx context.Context) error {
			next = start(t, dir, control.DRA)
			time.Sleep(10 * time.Millisecond) // so that neither waits for an attempt of the other
			plugin := start(t, dir, control.DevicePlugin)
			time.Sleep(10 * time.Millisecond)
			if next.owns(2*time.Second) || plugin.owns(0) {
				t.Error("the node is owned while devices are withdrawn")
			} else {
				plugin.stop()
				if err := <-plugin.taken; !errors.Is(err, context.Canceled) {
					t.Errorf("Take() = %v, want that the context has ended", err)
				}
			}
			return nil
		})
		last.logged(t, "info owner.taken dra 0", "info owner.left dra")
		if !next.owns(time.Second) {
			t.Error("the next driver does not own the node")
		}
		next.logged(t, "info owner.waiting dra withdrawal 0", "info owner.taken dra 2200")
		next.Kill()
	})
}

// After a driver that has not deleted its slices, the device plugin waits 40 s, unless a driver has deleted them
// meanwhile.
func TestSlicesRemain(t *testing.T) {
	failing := errors.New("no answer")
	for name, leave := range map[string]func(*daemon){
		"killed": func(d *daemon) { d.Kill() },
		"failed": func(d *daemon) { d.Leave(t.Context(), nil) },
		"not deleted": func(d *daemon) {
			d.Leave(t.Context(), func(context.Context) error { return failing })
			d.logged(t, "info owner.taken dra 0", "warn owner.left dra no answer")
		},
		"no answer": func(d *daemon) {
			began := time.Now()
			d.Leave(t.Context(), func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() })
			compare.Equal(t, "time of Leave", 6*time.Second, time.Since(began))
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				dir := privatedirtest.Dir(t)
				driver := start(t, dir, control.DRA)
				driver.owns(0)
				leave(driver)

				// A driver does not wait.
				driver = start(t, dir, control.DRA)
				if !driver.owns(0) {
					t.Fatal("the next driver waits")
				}
				driver.Kill()

				// A plugin that ends before its time has not waited.
				plugin := start(t, dir, control.DevicePlugin)
				if plugin.owns(39 * time.Second) {
					t.Fatal("the plugin does not wait")
				}
				if err := plugin.Waiting(); err == nil || !strings.HasSuffix(err.Error(), "/owner-dra.lock: the DRA driver has not deleted its ResourceSlices: waiting 40s, until the kubelet has") {
					t.Errorf("Waiting() = %v, want that it waits for the kubelet", err)
				}
				plugin.stop()
				if err := <-plugin.taken; !errors.Is(err, context.Canceled) {
					t.Fatalf("Take() = %v, want that the context has ended", err)
				}

				plugin = start(t, dir, control.DevicePlugin)
				if plugin.owns(39 * time.Second) {
					t.Fatal("the plugin does not wait once more")
				}
				// The pauses keep the attempts of the daemons apart, so that none waits for another's.
				time.Sleep(10 * time.Millisecond)
				second := start(t, dir, control.DevicePlugin)
				time.Sleep(10 * time.Millisecond)
				driver = start(t, dir, control.DRA)
				time.Sleep(10 * time.Millisecond)
				if !plugin.owns(time.Second) || second.owns(0) || driver.owns(0) {
					t.Error("after 40 s: want that the first plugin owns the node, and no other daemon")
				}
				plugin.logged(t, "warn owner.waiting dra api 40000", "info owner.taken devicePlugin 40000")
				if !second.owns(39*time.Second) || driver.owns(0) {
					t.Error("after 79 s: want that both plugins own the node")
				}
				plugin.Kill()
				third := start(t, dir, control.DevicePlugin)
				if !third.owns(0) {
					t.Error("a plugin after the others waits")
				}
				second.Kill()
				third.Kill()
				if !driver.owns(time.Second) {
					t.Error("the driver waits for plugins that were killed")
				}

				// Deleted by another driver.
				driver.Kill()
				driver = start(t, dir, control.DRA)
				driver.owns(0)
				driver.Leave(t.Context(), nothing)
				if plugin = start(t, dir, control.DevicePlugin); !plugin.owns(0) {
					t.Error("the plugin waits for slices that were deleted")
				}
				plugin.Kill()
			})
		})
	}
}

// What is in the way is named, and the daemon takes the node once it is gone.
func TestObstacles(t *testing.T) {
	for _, tc := range []struct {
		name, want string
		put        func(dir string) (mend func() error, err error)
	}{
		{"own file is a link", "/owner-devicePlugin.lock: found a file of mode L", func(dir string) (func() error, error) {
			path := filepath.Join(dir, "owner-devicePlugin.lock")
			return func() error { return os.Remove(path) }, os.Symlink("/etc/passwd", path)
		}},
		{"others may write to the directory", ": found mode 0777, want it not writable", func(dir string) (func() error, error) {
			return func() error { return os.Chmod(dir, 0o700) }, os.Chmod(dir, 0o777)
		}},
		{"guard held", "/owner.lock: held by another process: fuser -v ", func(dir string) (func() error, error) {
			file, err := os.Create(filepath.Join(dir, "owner.lock"))
			if err != nil {
				return nil, err
			}
			return file.Close, errors.Join(file.Chmod(0o600), syscall.Flock(int(file.Fd()), syscall.LOCK_EX))
		}},
		{"no descriptor", "too many open files", func(string) (func() error, error) {
			var old syscall.Rlimit
			err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &old)
			return func() error { return syscall.Setrlimit(syscall.RLIMIT_NOFILE, &old) },
				errors.Join(err, syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: 3, Max: old.Max}))
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				dir := privatedirtest.Dir(t)
				mend := must.Value(tc.put(dir))(t)
				d := start(t, dir, control.DevicePlugin)
				took := d.owns(70 * time.Second)
				waits := d.Waiting()
				must.Succeed(t, mend())
				if took || waits == nil || !strings.HasPrefix(waits.Error(), "--state-dir: ") || !strings.Contains(waits.Error(), tc.want) {
					t.Errorf("Waiting() = %v, want --state-dir and %s", waits, tc.want)
				}
				if lines := d.lines(); len(lines) != 2 || !strings.HasPrefix(lines[0], "error owner.unavailable ") {
					t.Errorf("log: found %q, want two errors in 70 s", lines)
				}
				if !d.owns(4 * time.Second) {
					t.Error("the daemon does not own the node once this is mended")
				}
				d.Kill()
			})
		})
	}
}

// A daemon refuses a network file system, and owns the node when a local one is mounted.
func TestNetworkFileSystem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := privatedirtest.Dir(t)
		var mounted atomic.Pointer[string]
		remote := "/s: found the network file system nfs"
		mounted.Store(&remote)
		d := startChecked(t, dir, control.DevicePlugin, 1, func(*os.Root) error {
			if bad := mounted.Load(); bad != nil {
				return errors.New(*bad)
			}
			return nil
		})
		if d.owns(70*time.Second) || d.WaitsFor() != owner.ForStateDir || d.Waiting().Error() != "--state-dir: "+remote {
			t.Errorf("waits for %s, %v, want the file system", d.WaitsFor(), d.Waiting())
		}
		if found := files(t, dir); len(found) > 0 {
			t.Errorf("files in the directory: found %q, want none", found)
		}
		d.logged(t, "error owner.unavailable 0 "+remote, "error owner.unavailable 60000 "+remote)
		mounted.Store(nil)
		if !d.owns(time.Second) {
			t.Errorf("the daemon waits: %v", d.Waiting())
		}
		d.Kill()
	})
}

// A file system that hangs delays the node, but neither what the daemon says nor its end. It has one attempt at a time.
func TestHangingFileSystem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := privatedirtest.Dir(t)
		answer, attempts := make(chan struct{}), atomic.Int64{}
		hang := func(*os.Root) error {
			attempts.Add(1)
			<-answer
			return nil
		}
		plugin := startChecked(t, dir, control.DevicePlugin, 1, hang)
		driver := startChecked(t, dir, control.DRA, 1, hang)
		want := "--state-dir: " + dir + ": no answer within 5s: the file system hangs"
		if plugin.owns(5*time.Second) || plugin.WaitsFor() != owner.ForStateDir || plugin.Waiting().Error() != want {
			t.Errorf("waits for %s, %v, want %s", plugin.WaitsFor(), plugin.Waiting(), want)
		}
		if plugin.owns(time.Hour) || attempts.Load() != 2 {
			t.Errorf("%d attempts of two daemons, want 2", attempts.Load())
		}
		if lines := plugin.lines(); len(lines) < 50 || len(lines) > 61 || !strings.HasPrefix(lines[0], "error owner.unavailable ") {
			t.Errorf("log: found %d lines, want one each minute: %q", len(lines), lines[:min(len(lines), 3)])
		}
		driver.stop()
		driver.owns(0)
		if err := <-driver.taken; !errors.Is(err, context.Canceled) {
			t.Errorf("stopped while it hangs: error %v, want %v", err, context.Canceled)
		}
		close(answer)
		if !plugin.owns(time.Second) {
			t.Errorf("the plugin waits, although the driver was stopped: %v", plugin.Waiting())
		}
		plugin.Kill()
	})
}

// Without a state directory there is no lock.
func TestWithoutDirectory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := start(t, "", control.DRA), start(t, "", control.DevicePlugin)
		if !a.owns(0) || !b.owns(0) {
			t.Error("a daemon waits")
		}
		a.logged(t, "warn config.notice")
		a.Leave(t.Context(), func(context.Context) error { t.Error("devices are withdrawn without a lock"); return nil })
	})
}

// A device plugin asks who holds devices of claims only if a driver has run since the machine was booted.
func TestOtherMayHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := privatedirtest.Dir(t)
		plugin := start(t, dir, control.DevicePlugin)
		if !plugin.owns(0) || plugin.OtherMayHold() {
			t.Error("no driver has run: found that claims may hold devices, want not")
		}
		plugin.Leave(t.Context(), nothing)
		driver := start(t, dir, control.DRA)
		driver.owns(time.Second)
		driver.Leave(t.Context(), nothing)
		if !plugin.OtherMayHold() || !driver.OtherMayHold() {
			t.Error("a driver has run: found that the other API holds no device, want that it may")
		}
		for _, boot := range []string{"of an earlier boot", ""} {
			must.Succeed(t, os.WriteFile(filepath.Join(dir, "owner-dra.boot"), []byte(boot), 0o600))
			if plugin.OtherMayHold() {
				t.Errorf("boot %q: found that claims may hold devices, want not", boot)
			}
		}
	})
}
