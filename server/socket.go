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
	"sync/atomic"
	"syscall"
	"time"

	"go.uber.org/zap"

	"b-com.com/accelerator-device-plugin/internal/accept"
	"b-com.com/accelerator-device-plugin/internal/event"
)

const (
	kubeletSocket = "kubelet.sock"
	socketPrefix  = "accelerator-" // stable: leftovers are recognized by it
	socketSuffix  = ".sock"
	maxSocketPath = 107 // bytes: sun_path of unix(7) less its NUL
)

// The name of a socket has 13 letters of base32. The first ones are the same in all names of
// one daemon (30 bits), the others are random each time (35 bits).
const (
	socketLetters = 13
	ownerLetters  = 6
)

// newSocketOwner returns a random prefix for the names of the sockets of one daemon.
func newSocketOwner() string { return socketPrefix + letters(ownerLetters) }

// newSocketPath returns a path that was never used before: a kubelet of 1.37 may take a second
// registration with the same path for the first.
func newSocketPath(dir, owner string) string {
	return filepath.Join(dir, owner+letters(socketLetters-ownerLetters)+socketSuffix)
}

func letters(n int) string { return strings.ToLower(rand.Text()[:n]) }

// probeTimeout bounds the time for all leftovers together.
const probeTimeout = 500 * time.Millisecond

// removeLeftovers removes the sockets that earlier runs of ours left in the directory: those
// with our prefix that refuse a connection. A socket that accepts belongs to a peer, which is
// logged once. Other files are left alone.
func removeLeftovers(ctx context.Context, dir string, log *zap.Logger) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return // the directory does not exist, or listen will fail and be logged
	}
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	peer := false
	for _, entry := range entries {
		if entry.Type() != fs.ModeSocket || !strings.HasPrefix(entry.Name(), socketPrefix) {
			continue
		}
		path := filepath.Join(dir, entry.Name())
		if conn, err := dialUnix(ctx, path); err == nil {
			_ = conn.Close()
			if !peer {
				peer = true
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

// listener keeps its accepted connections, so that all of them can be closed: grpc waits for a
// connection on which no data is sent. A connection is active once data was received on it.
type listener struct {
	net.Listener
	mu     sync.Mutex
	conns  map[*accepted]bool
	left   signal // one was closed
	closed bool   // an active connection was closed
}

type accepted struct {
	net.Conn
	from   *listener
	active atomic.Bool // data was received
}

func listen(path string) (*listener, error) {
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return nil, err
	}
	return &listener{Listener: accept.Patiently(l), conns: map[*accepted]bool{}, left: newSignal()}, nil
}

func (l *listener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	c := &accepted{Conn: conn, from: l}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.conns[c] = true
	return c, nil
}

func (c *accepted) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if n > 0 {
		c.active.Store(true)
	}
	return n, err
}

func (c *accepted) Close() error {
	c.from.mu.Lock()
	delete(c.from.conns, c)
	c.from.closed = c.from.closed || c.active.Load()
	c.from.mu.Unlock()
	c.from.left.raise()
	return c.Conn.Close()
}

// active returns the number of active connections that are open, and reports whether one was
// closed. Connections of peers are never active.
func (l *listener) active() (open int, closed bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for c := range l.conns {
		if c.active.Load() {
			open++
		}
	}
	return open, l.closed
}

// awaitClosed blocks until all active connections are closed, or until has an element.
func (l *listener) awaitClosed(until <-chan time.Time) {
	for {
		left := l.left.next()
		if open, _ := l.active(); open == 0 {
			return
		}
		select {
		case <-left:
		case <-until:
			return
		}
	}
}

// cut closes all open connections.
func (l *listener) cut() { l.cutThose(func(*accepted) bool { return true }) }

// cutSilent closes the connections that are not active.
func (l *listener) cutSilent() { l.cutThose(func(c *accepted) bool { return !c.active.Load() }) }

func (l *listener) cutThose(which func(*accepted) bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for c := range l.conns {
		if which(c) {
			_ = c.Conn.Close()
		}
	}
}
