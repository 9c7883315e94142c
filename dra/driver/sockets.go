package driver

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"b-com.com/accelerator-device-plugin/internal/logevent"
	"b-com.com/accelerator-device-plugin/offer/draname"
)

const (
	// probeTimeout is the total time limit for probing a directory's sockets.
	probeTimeout = 500 * time.Millisecond
	// cleanInterval is the time between searches for stale sockets.
	cleanInterval = 20 * time.Second
)

// keepClean removes stale sockets until ctx is done. A single search at startup isn't enough, because the previous
// driver may still be running then, or may be suspended (SIGSTOP), and leaves its sockets behind if it is killed later.
// refused is the result of the first search.
func (d *Driver) keepClean(ctx context.Context, refused map[string]bool) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(cleanInterval):
			refused = d.removeStale(ctx, refused)
		}
	}
}

// removeStale removes stale sockets that killed drivers left behind. If before isn't nil, it removes only the sockets
// listed in before, because another driver may be about to listen on the others. removeStale returns the paths of all
// sockets that refused a connection.
func (d *Driver) removeStale(ctx context.Context, before map[string]bool) (refused map[string]bool) {
	refused = map[string]bool{}
	d.removeStaleIn(ctx, d.cfg.PluginDir, "dra", ".sock", before, refused)
	d.removeStaleIn(ctx, d.cfg.RegistryDir, draname.Driver, "-reg.sock", before, refused)
	return refused
}

// removeStaleIn removes sockets in dir that refuse connections and whose names have the given prefix and suffix. A
// socket that accepts connections belongs to a running driver. The helper itself only removes a socket whose name it is
// about to use.
func (d *Driver) removeStaleIn(ctx context.Context, dir, prefix, suffix string, before, refused map[string]bool) {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	entries, _ := os.ReadDir(dir) // the helper returns the error if the directory can't be read
	for _, entry := range entries {
		name := entry.Name()
		if entry.Type() != fs.ModeSocket || !strings.HasPrefix(name, prefix+"-") && name != prefix+suffix || !strings.HasSuffix(name, suffix) {
			continue
		}
		path := filepath.Join(dir, name)
		conn, err := (&net.Dialer{}).DialContext(ctx, "unix", path)
		if err == nil {
			_ = conn.Close()
		}
		if !errors.Is(err, syscall.ECONNREFUSED) {
			continue
		}
		refused[path] = true
		if before != nil && !before[path] {
			continue
		}
		if err := os.Remove(path); err != nil {
			d.log.Warn("leftover socket not removed", logevent.SocketRemoved, logevent.Socket(path), logevent.Err(err))
			continue
		}
		d.log.Info("leftover socket removed", logevent.SocketRemoved, logevent.Socket(path))
	}
}
