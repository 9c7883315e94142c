package daemon

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"b-com.com/accelerator-device-plugin/daemon/control"
	"b-com.com/accelerator-device-plugin/internal/privatedir"
)

// openWithin is how long the daemon waits for the state directory's file system at startup. After that,
// [owner.Node.Take] keeps waiting.
const openWithin = 5 * time.Second

// checkStateDir creates the state directory if it doesn't exist. It returns an error if this process isn't running as
// root and isn't allowed to use the directory, because waiting wouldn't help. Other errors may go away, so they are
// left to [owner.Node.Take], which logs them and tries again.
func checkStateDir(ctx context.Context, dir, kind string) error {
	uid := os.Geteuid()
	if uid == 0 || dir == "" {
		return nil
	}
	err := privatedir.Within(ctx, openWithin, func() error {
		opened, err := privatedir.OpenDir(dir, true)
		if err != nil {
			return err
		}
		return opened.Close()
	})
	if err == nil {
		return nil
	}
	return withoutRights(err, uid, kind)
}

// withoutRights returns an error that says which settings to change if err means that the user isn't allowed to use the
// state directory, and nil otherwise. kind is the daemon's API.
func withoutRights(err error, uid int, kind string) error {
	foreign := (*privatedir.OwnerError)(nil)
	switch {
	case errors.As(err, &foreign):
		// Leave out the chown that the original error suggests, because it would take the directory away from a daemon
		// that runs as root.
		err = fmt.Errorf("%s: found owner uid %d, want %d", foreign.Path, foreign.UID, uid)
	case !errors.Is(err, fs.ErrPermission):
		return nil
	}
	flags := "--state-dir, --socket and --kubelet-dir"
	if kind == control.DRA {
		flags = "--state-dir, --socket, --cdi-dir, --plugin-dir and --registry-dir"
	}
	return fmt.Errorf("--state-dir: %w: run the daemon as root, or set %s to paths that uid %d can write to", err, flags, uid)
}
