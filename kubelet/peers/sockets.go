package peers

import (
	"context"
	"crypto/rand"
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

// Prefix is the prefix of the plugin's socket names. No other files in the kubelet's directory have this prefix.
const Prefix = "accelerator-"

// A socket's name consists of the prefix, base32 letters and the suffix. The first letters (30 bits) are the same for
// all of a daemon's sockets, and the others (35 bits) are different for each socket.
const (
	ownerLetters  = 6
	socketLetters = 7
	suffix        = ".sock"
)

// MaxDir is the maximum length of the kubelet directory's path, in bytes. A socket's path can be at most 107 bytes long
// (sun_path in unix(7), without the NUL).
const MaxDir = 107 - len("/"+Prefix+suffix) - ownerLetters - socketLetters

// newOwner returns a random prefix for this daemon's socket names.
func newOwner() string { return Prefix + letters(ownerLetters) }

func letters(n int) string { return strings.ToLower(rand.Text()[:n]) }

// NewSocketPath returns a new path for one of this daemon's sockets. Paths are never reused, because the kubelet (1.37)
// may confuse two registrations with the same path.
func (p *Peers) NewSocketPath() string {
	return filepath.Join(p.dir, p.own+letters(socketLetters)+suffix)
}

// ownerOf returns the part of a socket's name that identifies the daemon, or "" if the path isn't a peer's socket.
func (p *Peers) ownerOf(path string) string {
	name := filepath.Base(path)
	if len(name) != len(Prefix)+ownerLetters+socketLetters+len(suffix) ||
		!strings.HasPrefix(name, Prefix) || !strings.HasSuffix(name, suffix) || strings.HasPrefix(name, p.own) {
		return ""
	}
	return name[:len(Prefix)+ownerLetters]
}

// probeTimeout is the total time limit for probing all leftover sockets.
const probeTimeout = 500 * time.Millisecond

// RemoveLeftovers removes the sockets that earlier daemons left in the directory: those whose names start with [Prefix]
// and that refuse connections. Sockets that accept connections belong to peers. If there are any peers, RemoveLeftovers
// logs a single warning.
func (p *Peers) RemoveLeftovers(ctx context.Context, log *zap.Logger) {
	if living := p.removeLeftovers(ctx, "", log); living != "" {
		log.Warn("another daemon found", logevent.SocketTwin, logevent.Socket(living))
	}
}

// removeLeftovers removes sockets that refuse connections. If owner isn't "", it removes only that daemon's sockets. It
// returns the path of a socket that accepts connections, or "" if there is none.
func (p *Peers) removeLeftovers(ctx context.Context, owner string, log *zap.Logger) (living string) {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	for _, entry := range sockets(p.dir) {
		path := filepath.Join(p.dir, entry.Name())
		if owner != "" && p.ownerOf(path) != owner {
			continue
		}
		conn, err := dial(ctx, path)
		switch {
		case err == nil:
			_ = conn.Close()
			living = path
		case !errors.Is(err, syscall.ECONNREFUSED):
		default:
			if err := os.Remove(path); err != nil {
				log.Warn("leftover socket not removed", logevent.SocketRemoved, logevent.Socket(path), logevent.Err(err))
				continue
			}
			log.Info("leftover socket removed", logevent.SocketRemoved, logevent.Socket(path))
		}
	}
	return living
}

// sockets returns the sockets whose names start with [Prefix], or none if the directory can't be read.
func sockets(dir string) []fs.DirEntry {
	var found []fs.DirEntry
	entries, _ := os.ReadDir(dir)
	for _, entry := range entries {
		if entry.Type() == fs.ModeSocket && strings.HasPrefix(entry.Name(), Prefix) {
			found = append(found, entry)
		}
	}
	return found
}

func dial(ctx context.Context, path string) (net.Conn, error) {
	return (&net.Dialer{}).DialContext(ctx, "unix", path)
}
