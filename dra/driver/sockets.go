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

	"go.uber.org/zap"

	"b-com.com/accelerator-device-plugin/internal/logevent"
)

// probeTimeout is the total time limit for probing a directory's sockets.
const probeTimeout = 500 * time.Millisecond

// removeLeftovers removes stale sockets that killed drivers left behind in dir: sockets that have this prefix and
// suffix and refuse connections. A socket that accepts connections belongs to a running driver. The helper itself
// removes only a socket that has the name it is about to use.
func removeLeftovers(ctx context.Context, dir, prefix, suffix string, log *zap.Logger) {
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
		if err := os.Remove(path); err != nil {
			log.Warn("leftover socket not removed", logevent.SocketRemoved, logevent.Socket(path), logevent.Err(err))
			continue
		}
		log.Info("leftover socket removed", logevent.SocketRemoved, logevent.Socket(path))
	}
}
