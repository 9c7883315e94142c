package daemon

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"go.uber.org/zap"

	"b-com.com/accelerator-device-plugin/daemon/config"
	"b-com.com/accelerator-device-plugin/daemon/control"
	"b-com.com/accelerator-device-plugin/internal/metrics"
	"b-com.com/accelerator-device-plugin/internal/privatedir"
	"b-com.com/accelerator-device-plugin/test/compare"
	"b-com.com/accelerator-device-plugin/test/must"
)

// A user who can't access the state directory is told what to set. Errors that may be temporary don't make the daemon
// exit.
func TestWithoutRights(t *testing.T) {
	const dir = "/var/lib/accelerator-device-plugin"
	for _, tc := range []struct {
		name, kind string
		err        error
		want       string // "": no error
	}{
		{"cannot be created", control.DevicePlugin, privatedir.PathError(dir, &fs.PathError{Op: "mkdirat", Path: "x", Err: syscall.EACCES}),
			"--state-dir: " + dir + ": permission denied: run the daemon as root, or set --state-dir, --socket and --kubelet-dir to paths that uid 1000 can write to"},
		{"of root", control.DevicePlugin, &privatedir.OwnerError{Path: dir, UID: 0, Want: 1000},
			"--state-dir: " + dir + ": found owner uid 0, want 1000: run the daemon as root, or set --state-dir, --socket and --kubelet-dir to paths that uid 1000 can write to"},
		{"of root, wrapped", control.DRA, privatedir.PathError(dir, &privatedir.OwnerError{Path: dir, UID: 0, Want: 1000}),
			"--state-dir: " + dir + ": found owner uid 0, want 1000: run the daemon as root, or set --state-dir, --socket, --cdi-dir, --plugin-dir and --registry-dir to paths that uid 1000 can write to"},
		{"disk full", control.DevicePlugin, privatedir.PathError(dir, syscall.ENOSPC), ""},
		{"disk read-only", control.DevicePlugin, privatedir.PathError(dir, syscall.EROFS), ""},
		{"mode", control.DevicePlugin, errors.New(dir + ": found mode 0777, want it not writable by group and others: chmod go-w " + dir), ""},
	} {
		if got := withoutRights(tc.err, 1000, tc.kind); tc.want == "" && got != nil || tc.want != "" && fmt.Sprint(got) != tc.want {
			t.Errorf("%s: found %v, want %q", tc.name, got, tc.want)
		}
	}
}

// A daemon that can't access its state directory exits before it opens anything.
func TestEndsWithoutRights(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("root has all rights")
	}
	parent := t.TempDir()
	must.Succeed(t, os.Chmod(parent, 0o555))
	cfg := config.Defaults()
	cfg.StateDir, cfg.HTTPAddress, cfg.Socket = filepath.Join(parent, "state"), "", ""
	d := &Daemon{
		Kind: control.DevicePlugin, Config: cfg, Log: zap.NewNop(), Metrics: metrics.New("test"),
		Open: func() (API, error) { return nil, errors.New("found a call of Open, want none") },
	}
	want := "--state-dir: " + cfg.StateDir + ": permission denied: run the daemon as root, or set --state-dir, "
	compare.Error(t, "Serve", want, d.Serve(t.Context()))
}
