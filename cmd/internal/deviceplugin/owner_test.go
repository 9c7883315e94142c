package deviceplugin_test

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"

	"b-com.com/accelerator-device-plugin/daemon/config"
	"b-com.com/accelerator-device-plugin/daemon/control"
	"b-com.com/accelerator-device-plugin/daemon/owner"
	"b-com.com/accelerator-device-plugin/internal/logevent"
)

// While a DRA driver owns the node, the daemon is alive and not ready. It has read nothing, and offers nothing. When
// the driver has left, the daemon offers the devices.
func TestWaitsForTheOtherAPI(t *testing.T) {
	d := prepareDaemon(t, func(c *config.Config) { c.HTTPAddress = freeAddress(t) })
	d.do(d.node.Plug(cardA))
	driver := owner.New(d.cfg.StateDir, control.DRA, zap.NewNop())
	d.do(driver.Take(t.Context(), func() owner.Naming { return 1 }))
	d.run()
	get := func(path string) string {
		answer, err := probe.Get("http://" + d.cfg.HTTPAddress + path)
		if err != nil {
			return err.Error()
		}
		defer answer.Body.Close()
		text, _ := io.ReadAll(answer.Body)
		return answer.Status + ": " + strings.TrimSpace(string(text))
	}
	eventually := func(path, want string) {
		t.Helper()
		deadline := time.After(20 * time.Second)
		for got := ""; got != want; got = get(path) {
			select {
			case <-deadline:
				t.Fatalf("%s: found %q, want %q", path, got, want)
			case <-time.After(5 * time.Millisecond):
			}
		}
	}
	eventually("/readyz", "503 Service Unavailable: "+filepath.Join(d.cfg.StateDir, "owner-dra.lock")+": found a daemon of the API dra, want none")
	eventually("/healthz", "200 OK: ok")
	eventually("/devices", "200 OK: []")
	if text := get("/metrics"); !strings.Contains(text, "accelerator_build_info") {
		t.Errorf("/metrics: found %q, want the version", text)
	}
	if _, err := os.Lstat(d.cfg.Socket); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("local socket: found one, error %v, want none", err)
	}
	for _, unwanted := range []zap.Field{logevent.SourceOpened, logevent.ScanDone, logevent.DeviceAdded, logevent.ResourceRegistered, logevent.OwnerTaken} {
		if n := d.logs.FilterField(unwanted).Len(); n > 0 {
			t.Errorf("log: found %s %d times while the driver owns the node", unwanted.String, n)
		}
	}

	driver.Leave(t.Context(), func(context.Context) error { return nil })
	d.await("the driver has left", health{"3b:00.0": true, "3b:00.0-p1": true})
	eventually("/readyz", "200 OK: ok")
	if _, err := control.Dial(d.cfg.Socket).State(t.Context()); err != nil {
		t.Errorf("local socket: %v", err)
	}
	d.do(d.stop())
}

// A daemon that waits ends at once when it is stopped.
func TestEndsWhileItWaits(t *testing.T) {
	d := prepareDaemon(t, nil)
	driver := owner.New(d.cfg.StateDir, control.DRA, zap.NewNop())
	d.do(driver.Take(t.Context(), func() owner.Naming { return 1 }))
	defer driver.Leave(context.WithoutCancel(t.Context()), nil)
	d.run()
	d.awaitLine(logevent.OwnerWaiting.String)
	began := time.Now()
	d.do(d.stop())
	if took := time.Since(began); took > 2*time.Second {
		t.Errorf("the daemon has ended after %s", took)
	}
	if n := d.logs.FilterField(logevent.OwnerLeft).Len(); n > 0 {
		t.Error("a daemon that never owned the node has left it")
	}
}
