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
	"b-com.com/accelerator-device-plugin/test/compare"
	"b-com.com/accelerator-device-plugin/test/eventtest"
	"b-com.com/accelerator-device-plugin/test/must"
	"b-com.com/accelerator-device-plugin/test/privatedirtest"
)

// node is a node with a state directory, in a synctest bubble.
type node struct {
	*testing.T
	dir     string
	daemons []*daemon
}

// onNode runs story on a node without daemons. Daemons that own the node at the end are killed.
func onNode(t *testing.T, story func(*node)) {
	t.Helper()
	onNodeWith(t, privatedirtest.Dir(t), story)
}

// onNodeWith is like onNode, but with this state directory.
func onNodeWith(t *testing.T, dir string, story func(*node)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		n := &node{T: t, dir: dir}
		story(n)
		for _, d := range n.daemons {
			if d.owns(0) {
				d.Kill()
			}
		}
	})
}

// daemon is a daemon of either API.
type daemon struct {
	*owner.Node
	t     *testing.T
	stop  context.CancelFunc
	taken chan error
	wants atomic.Int64 // its naming
	logs  *observer.ObservedLogs
}

// start starts a daemon with this naming, or with 1 by default.
func (n *node) start(api string, naming ...owner.Naming) *daemon {
	n.Helper()
	return n.startChecked(api, nil, naming...)
}

// owner starts a daemon that owns the node immediately.
func (n *node) owner(api string, naming ...owner.Naming) *daemon {
	n.Helper()
	d := n.start(api, naming...)
	d.takes(0)
	return d
}

// startChecked starts a daemon that checks the state directory with check, or checks its file system if check is nil.
func (n *node) startChecked(api string, check func(*os.Root) error, naming ...owner.Naming) *daemon {
	n.Helper()
	core, logs := eventtest.Observed(n.T)
	ctx, stop := context.WithCancel(n.Context())
	d := &daemon{Node: owner.New(n.dir, api, zap.New(core)), t: n.T, stop: stop, taken: make(chan error, 1), logs: logs}
	d.wants.Store(int64(append(naming, 1)[0]))
	if check != nil {
		d.CheckDir(check)
	}
	go func() { d.taken <- d.Take(ctx, func() owner.Naming { return owner.Naming(d.wants.Load()) }) }()
	n.daemons = append(n.daemons, d)
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

// takes checks that the daemon owns the node after this time.
func (d *daemon) takes(after time.Duration) {
	d.t.Helper()
	if !d.owns(after) {
		d.t.Fatalf("the daemon waits for %q, want it to own the node after %s: %v", d.WaitsFor(), after, d.Waiting())
	}
}

// waits checks that the daemon doesn't own the node after this time.
func (d *daemon) waits(after time.Duration) {
	d.t.Helper()
	if d.owns(after) {
		d.t.Fatalf("the daemon owns the node after %s, want it to wait", after)
	}
}

// ends stops a daemon that is waiting.
func (d *daemon) ends() {
	d.t.Helper()
	d.stop()
	compare.ErrorIs(d.t, "Take", context.Canceled, <-d.taken)
}

// leave makes a daemon leave the node without having anything to withdraw.
func (d *daemon) leave() { d.Leave(d.t.Context(), func(context.Context) error { return nil }) }

// lines returns the new log lines as level, event, owner and times.
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

func (d *daemon) logged(want ...string) {
	d.t.Helper()
	compare.Values(d.t, "log", want, d.lines())
}

func files(t testing.TB, dir string) (all []string) {
	t.Helper()
	entries := must.Value(os.ReadDir(dir))(t)
	for _, e := range entries {
		all = append(all, e.Name())
	}
	return all
}

// Each API waits until the last daemon of the other one has left, and no longer than that.
func TestTurns(t *testing.T) {
	for _, apis := range [][2]string{{control.DevicePlugin, control.DRA}, {control.DRA, control.DevicePlugin}} {
		t.Run(apis[0], func(t *testing.T) {
			onNode(t, func(n *node) {
				first := n.owner(apis[0])
				second := n.owner(apis[0])
				other := n.start(apis[1])
				other.waits(150 * time.Second)
				want := filepath.Join(n.dir, "owner-"+apis[0]+".lock: found a daemon of the API "+apis[0]+", want none")
				compare.Equal(n, "Waiting", want, fmt.Sprint(other.Waiting()))
				waits := "info owner.waiting " + apis[0] + " api "
				other.logged(waits+"0", waits+"60000", waits+"120000")

				first.Leave(n.Context(), func(context.Context) error {
					n.Error("devices are withdrawn although another daemon of the API runs")
					return nil
				})
				first.logged("info owner.taken " + apis[0] + " 0")
				third := n.start(apis[0]) // starts before other, which has been waiting longer
				other.waits(time.Second)
				third.takes(0)
				second.leave()
				late := n.start(apis[0])
				third.Leave(n.Context(), func(context.Context) error {
					late.stop()
					late.waits(time.Second)
					other.waits(time.Second)
					return nil
				})
				if err := <-late.taken; err == nil { // it may have become the owner before third left
					late.leave()
				}
				other.takes(time.Second)
				other.leave()
				compare.Values(n, "files", []string{"owner-devicePlugin.lock", "owner-dra.boot", "owner.lock"}, files(n, n.dir))
			})
		})
	}
}

// While the last daemon withdraws its devices, no other daemon owns the node, even if it has the same API.
func TestTakeWhileLeaving(t *testing.T) {
	onNode(t, func(n *node) {
		last := n.owner(control.DRA)
		var next *daemon
		last.Leave(n.Context(), func(ctx context.Context) error {
			next = n.start(control.DRA)
			time.Sleep(10 * time.Millisecond) // so that their attempts don't coincide
			plugin := n.start(control.DevicePlugin)
			time.Sleep(10 * time.Millisecond)
			if next.owns(2*time.Second) || plugin.owns(0) {
				n.Error("the node is owned while devices are withdrawn")
			} else {
				plugin.ends()
			}
			return nil
		})
		last.logged("info owner.taken dra 0", "info owner.left dra")
		next.takes(time.Second)
		next.logged("info owner.waiting dra withdrawal 0", "info owner.taken dra 2200")
	})
}

// If a driver hasn't deleted its slices, the device plugin waits 40 s, unless another driver deletes them earlier.
func TestSlicesRemain(t *testing.T) {
	failing := errors.New("no answer")
	for name, leave := range map[string]func(*daemon){
		"killed": func(d *daemon) { d.Kill() },
		"failed": func(d *daemon) { d.Leave(t.Context(), nil) },
		"not deleted": func(d *daemon) {
			d.Leave(t.Context(), func(context.Context) error { return failing })
			d.logged("info owner.taken dra 0", "warn owner.left dra no answer")
		},
		"no answer": func(d *daemon) {
			began := time.Now()
			d.Leave(t.Context(), func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() })
			compare.Equal(t, "time of Leave", 6*time.Second, time.Since(began))
		},
	} {
		t.Run(name, func(t *testing.T) {
			onNode(t, func(n *node) {
				driver := n.owner(control.DRA)
				leave(driver)

				// A driver doesn't wait.
				driver = n.owner(control.DRA)
				driver.Kill()

				// A plugin that is stopped too early doesn't count as having waited.
				plugin := n.start(control.DevicePlugin)
				plugin.waits(39 * time.Second)
				if err := plugin.Waiting(); err == nil || !strings.HasSuffix(err.Error(), "/owner-dra.lock: the DRA driver has not deleted its ResourceSlices: waiting 40s, until the kubelet has") {
					n.Errorf("Waiting() = %v, want that it waits for the kubelet", err)
				}
				plugin.ends()

				plugin = n.start(control.DevicePlugin)
				plugin.waits(39 * time.Second)
				// The pauses keep the daemons' attempts apart, so that they don't wait for each other's.
				time.Sleep(10 * time.Millisecond)
				second := n.start(control.DevicePlugin)
				time.Sleep(10 * time.Millisecond)
				driver = n.start(control.DRA)
				time.Sleep(10 * time.Millisecond)
				plugin.takes(time.Second)
				second.waits(0)
				driver.waits(0)
				plugin.logged("warn owner.waiting dra api 40000", "info owner.taken devicePlugin 40000")
				second.takes(39 * time.Second)
				driver.waits(0)
				plugin.Kill()
				third := n.owner(control.DevicePlugin)
				second.Kill()
				third.Kill()
				driver.takes(time.Second)

				// The slices are deleted by another driver.
				driver.Kill()
				driver = n.owner(control.DRA)
				driver.leave()
				n.owner(control.DevicePlugin)
			})
		})
	}
}

// The daemon says what the obstacle is, and takes the node once the obstacle is gone.
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
			onNode(t, func(n *node) {
				mend := must.Value(tc.put(n.dir))(n)
				d := n.start(control.DevicePlugin)
				took := d.owns(70 * time.Second)
				waits := d.Waiting()
				must.Succeed(n, mend())
				if took || waits == nil || !strings.HasPrefix(waits.Error(), "--state-dir: ") || !strings.Contains(waits.Error(), tc.want) {
					n.Errorf("Waiting() = %v, want --state-dir and %s", waits, tc.want)
				}
				if lines := d.lines(); len(lines) != 2 || !strings.HasPrefix(lines[0], "error owner.unavailable ") {
					n.Errorf("log: found %q, want two errors in 70 s", lines)
				}
				d.takes(4 * time.Second)
			})
		})
	}
}

// A daemon rejects a network file system, and owns the node once a local one is mounted.
func TestNetworkFileSystem(t *testing.T) {
	onNode(t, func(n *node) {
		var mounted atomic.Pointer[string]
		remote := "/s: found the network file system nfs"
		mounted.Store(&remote)
		d := n.startChecked(control.DevicePlugin, func(*os.Root) error {
			if bad := mounted.Load(); bad != nil {
				return errors.New(*bad)
			}
			return nil
		})
		d.waits(70 * time.Second)
		if d.WaitsFor() != owner.ForStateDir || d.Waiting().Error() != "--state-dir: "+remote {
			n.Errorf("waits for %s, %v, want the file system", d.WaitsFor(), d.Waiting())
		}
		compare.Empty(n, "files in the directory", files(n, n.dir))
		d.logged("error owner.unavailable 0 "+remote, "error owner.unavailable 60000 "+remote)
		mounted.Store(nil)
		d.takes(time.Second)
	})
}

// If the file system hangs, the daemon doesn't own the node until later, but it still responds and exits. There is only
// one attempt at a time.
func TestHangingFileSystem(t *testing.T) {
	onNode(t, func(n *node) {
		answer, attempts := make(chan struct{}), atomic.Int64{}
		hang := func(*os.Root) error {
			attempts.Add(1)
			<-answer
			return nil
		}
		plugin := n.startChecked(control.DevicePlugin, hang)
		driver := n.startChecked(control.DRA, hang)
		want := "--state-dir: " + n.dir + ": no answer within 5s: the file system hangs"
		plugin.waits(5 * time.Second)
		if plugin.WaitsFor() != owner.ForStateDir || plugin.Waiting().Error() != want {
			n.Errorf("waits for %s, %v, want %s", plugin.WaitsFor(), plugin.Waiting(), want)
		}
		plugin.waits(time.Hour)
		compare.Equal(n, "attempts of two daemons", 2, attempts.Load())
		if lines := plugin.lines(); len(lines) < 50 || len(lines) > 61 || !strings.HasPrefix(lines[0], "error owner.unavailable ") {
			n.Errorf("log: found %d lines, want one each minute: %q", len(lines), lines[:min(len(lines), 3)])
		}
		driver.ends() // even though the file system hangs
		close(answer)
		plugin.takes(time.Second)
	})
}

// Without a state directory, there is no lock.
func TestWithoutDirectory(t *testing.T) {
	onNode(t, func(n *node) {
		n.dir = ""
		a := n.owner(control.DRA)
		n.owner(control.DevicePlugin)
		a.logged("warn config.notice")
		a.Leave(n.Context(), func(context.Context) error { n.Error("devices are withdrawn without a lock"); return nil })
	})
}

// A device plugin asks who holds claims' devices only if a driver has run since the machine booted.
func TestOtherMayHold(t *testing.T) {
	onNode(t, func(n *node) {
		plugin := n.owner(control.DevicePlugin)
		if plugin.OtherMayHold() {
			n.Error("no driver has run: found that claims may hold devices, want not")
		}
		plugin.leave()
		driver := n.start(control.DRA)
		driver.takes(time.Second)
		driver.leave()
		if !plugin.OtherMayHold() || !driver.OtherMayHold() {
			n.Error("a driver has run: found that the other API holds no device, want that it may")
		}
		for _, boot := range []string{"of an earlier boot", ""} {
			must.Succeed(n, os.WriteFile(filepath.Join(n.dir, "owner-dra.boot"), []byte(boot), 0o600))
			if plugin.OtherMayHold() {
				n.Errorf("boot %q: found that claims may hold devices, want not", boot)
			}
		}
	})
}

func TestLockCheck(t *testing.T) {
	for _, test := range []struct {
		name   string
		change func(dir string) error
		want   string
	}{
		{"unchanged", func(string) error { return nil }, ""},
		{"other files", func(dir string) error { return os.WriteFile(filepath.Join(dir, "cordons.json"), nil, 0o600) }, ""},
		{"removed", os.RemoveAll, "was removed or replaced"},
		{"replaced", func(dir string) error {
			return errors.Join(os.Rename(dir, dir+".old"), os.CopyFS(dir, os.DirFS(dir+".old")))
		}, "was removed or replaced"},
		{"a file in its place", func(dir string) error { return errors.Join(os.RemoveAll(dir), os.WriteFile(dir, nil, 0o600)) }, "not a directory"},
	} {
		t.Run(test.name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "state")
			onNodeWith(t, dir, func(n *node) {
				check := n.owner(control.DevicePlugin).LockCheck()
				must.Succeed(n, test.change(dir))
				compare.Outcome(n, "check", test.want, check())
			})
		})
	}
}
