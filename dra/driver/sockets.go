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

// probeTimeout limits how long the sockets of a directory are probed, all together.
const probeTimeout = 500 * time.Millisecond

// removeLeftovers removes the sockets that killed drivers have left in a directory: the ones with this prefix and
// suffix that refuse a connection. A socket that accepts a connection belongs to a running driver. The helper itself
// removes only a socket that has its own name.
func removeLeftovers(ctx context.Context, dir, prefix, suffix string, log *zap.Logger) {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	entries, _ := os.ReadDir(dir) // if the directory cannot be read, the helper returns the error
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
