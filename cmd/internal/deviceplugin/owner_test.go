package deviceplugin_test

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/zap"

	"b-com.com/accelerator-device-plugin/daemon/control"
	"b-com.com/accelerator-device-plugin/daemon/owner"
	"b-com.com/accelerator-device-plugin/internal/logevent"
	"b-com.com/accelerator-device-plugin/test/compare"
	"b-com.com/accelerator-device-plugin/test/patient"
)

// While a DRA driver owns the node, the daemon is alive but not ready. It hasn't read anything and doesn't advertise
// anything. Once the driver has left, the daemon advertises the devices.
func TestWaitsForTheOtherAPI(t *testing.T) {
	t.Parallel()
	d := prepareDaemon(t, nil)
	d.plug(cardA)
	driver := owner.New(d.cfg.StateDir, control.DRA, zap.NewNop())
	d.do(driver.Take(t.Context(), func() owner.Naming { return 1 }))
	d.run()
	d.eventually("/readyz", "503 Service Unavailable: "+filepath.Join(d.cfg.StateDir, "owner-dra.lock")+": found a daemon of the API dra, want none")
	d.eventually("/healthz", "200 OK: ok")
	d.eventually("/devices", "200 OK: []")
	compare.Contains(t, "/metrics", "accelerator_build_info", d.get("/metrics"))
	compare.ErrorIs(t, "local socket", fs.ErrNotExist, compare.ErrorOf(os.Lstat(d.cfg.Socket)))
	for _, unwanted := range []zap.Field{logevent.SourceOpened, logevent.ScanDone, logevent.DeviceAdded, logevent.ResourceRegistered, logevent.OwnerTaken} {
		compare.Equal(t, unwanted.String+" while the driver owns the node", 0, d.logs.FilterField(unwanted).Len())
	}

	driver.Leave(t.Context(), func(context.Context) error { return nil })
	d.await("the driver has left", health{"3b:00.0": true, "3b:00.0-p1": true})
	d.eventually("/readyz", "200 OK: ok")
	compare.NoError(t, "local socket", compare.ErrorOf(control.Dial(d.cfg.Socket).State(t.Context())))
	d.do(d.stop())
}

// get returns a page's status and text, or the error.
func (d *testDaemon) get(path string) string {
	answer, err := probe.Get(d.url(path))
	if err != nil {
		return err.Error()
	}
	defer answer.Body.Close()
	text, _ := io.ReadAll(answer.Body)
	return answer.Status + ": " + strings.TrimSpace(string(text))
}

// eventually waits until a page starts with this status and text.
func (d *testDaemon) eventually(path, want string) {
	d.t.Helper()
	patient.Await(d.t, path, func() error {
		if got := d.get(path); !strings.HasPrefix(got, want) {
			return fmt.Errorf("found %q, want %q", got, want)
		}
		return nil
	})
}

// A daemon that is waiting says so on /readyz and in a metric. If it is waiting for a daemon that uses different names,
// it is ready anyway.
func TestSaysThatItWaits(t *testing.T) {
	t.Parallel()
	waits := func(d *testDaemon, reason owner.Reason) {
		t.Helper()
		want := fmt.Sprintf("accelerator_owner_waiting{reason=%q} 1\n", reason)
		compare.Contains(t, "/metrics", want, d.get("/metrics"))
	}
	d := prepareDaemon(t, nil)
	d.do(os.MkdirAll(d.cfg.StateDir, 0o700))
	d.do(os.Chmod(d.cfg.StateDir, 0o777))
	d.run()
	d.eventually("/readyz", "503 Service Unavailable: --state-dir: "+d.cfg.StateDir+": found mode 0777, want it not writable")
	waits(d, owner.ForStateDir)
	d.do(os.Chmod(d.cfg.StateDir, 0o700))
	d.eventually("/readyz", "200 OK: ok")
	if text := d.get("/metrics"); strings.Contains(text, "accelerator_owner_waiting{") {
		t.Errorf("/metrics: found %q, want no daemon that waits", text)
	}
	d.do(d.stop())

	d = prepareDaemon(t, nil)
	other := owner.New(d.cfg.StateDir, control.DevicePlugin, zap.NewNop())
	d.do(other.Take(t.Context(), func() owner.Naming { return 1 }))
	d.run()
	d.eventually("/readyz", "200 OK: ok\n"+filepath.Join(d.cfg.StateDir, "owner-devicePlugin.lock")+": found a daemon whose settings give the devices other names")
	waits(d, owner.ForNaming)
	d.do(d.stop())
	other.Release()
}

// A daemon that is waiting exits when it is stopped.
func TestEndsWhileItWaits(t *testing.T) {
	t.Parallel()
	d := prepareDaemon(t, nil)
	driver := owner.New(d.cfg.StateDir, control.DRA, zap.NewNop())
	d.do(driver.Take(t.Context(), func() owner.Naming { return 1 }))
	defer driver.Leave(context.WithoutCancel(t.Context()), nil)
	d.run()
	d.awaitLine(logevent.OwnerWaiting.String)
	d.do(d.stop())
	compare.Equal(t, "lines that a daemon which never owned the node has left it", 0, d.logs.FilterField(logevent.OwnerLeft).Len())
}
