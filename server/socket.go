package server

import (
	"context"
	"crypto/rand"
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"go.uber.org/zap"

	"b-com.com/accelerator-device-plugin/internal/event"
)

const (
	kubeletSocket = "kubelet.sock"
	socketPrefix  = "accelerator-" // stable: leftovers are known by it
	socketSuffix  = ".sock"
	maxSocketPath = 107 // bytes: sun_path of unix(7) less its NUL
)

// newSocketPath makes up a path that was never used before: a kubelet of 1.37
// that is given a path again may take the new registration for the old one.
func newSocketPath(dir string) string {
	// 13 letters of base32 are 65 bits.
	return filepath.Join(dir, socketPrefix+strings.ToLower(rand.Text()[:13])+socketSuffix)
}

// probeTimeout bounds the look at all leftovers together.
const probeTimeout = 500 * time.Millisecond

// removeLeftovers removes the sockets that earlier runs of ours left in the
// directory: those with our prefix that refuse a connection. One that answers
// belongs to a twin that lives, which is said once, and what is no socket is not
// ours.
func removeLeftovers(ctx context.Context, dir string, log *zap.Logger) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return // there is none, or we shall hear of it when we listen
	}
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	twin := false
	for _, entry := range entries {
		if entry.Type() != fs.ModeSocket || !strings.HasPrefix(entry.Name(), socketPrefix) {
			continue
		}
		path := filepath.Join(dir, entry.Name())
		if conn, err := dialUnix(ctx, path); err == nil {
			_ = conn.Close()
			if !twin {
				twin = true
				log.Warn("another daemon found", event.SocketTwin, event.Socket(path))
			}
			continue
		} else if !errors.Is(err, syscall.ECONNREFUSED) {
			continue
		}
		if err := os.Remove(path); err != nil {
			log.Warn("leftover socket not removed", event.SocketRemoved, event.Socket(path), event.Err(err))
			continue
		}
		log.Info("leftover socket removed", event.SocketRemoved, event.Socket(path))
	}
}

func dialUnix(ctx context.Context, path string) (net.Conn, error) {
	return (&net.Dialer{}).DialContext(ctx, "unix", path)
}

// listener knows the connections that it accepted, so that all of them can be
// cut: grpc waits for one that connects and then says nothing.
type listener struct {
	net.Listener
	mu    sync.Mutex
	conns map[*accepted]bool
	left  signal // one was closed
}

type accepted struct {
	net.Conn
	from *listener
}

func listen(path string) (*listener, error) {
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return nil, err
	}
	return &listener{Listener: l, conns: map[*accepted]bool{}, left: newSignal()}, nil
}

func (l *listener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	c := &accepted{conn, l}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.conns[c] = true
	return c, nil
}

func (c *accepted) Close() error {
	c.from.mu.Lock()
	delete(c.from.conns, c)
	c.from.mu.Unlock()
	c.from.left.raise()
	return c.Conn.Close()
}

// awaitHangup blocks until every connection is closed, or until has passed.
func (l *listener) awaitHangup(until <-chan time.Time) {
	for {
		left := l.left.next()
		l.mu.Lock()
		open := len(l.conns)
		l.mu.Unlock()
		if open == 0 {
			return
		}
		select {
		case <-left:
		case <-until:
			return
		}
	}
}

// cut closes every connection that is open.
func (l *listener) cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for c := range l.conns {
		_ = c.Conn.Close()
	}
}
