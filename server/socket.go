package server

import (
	"net"
	"sync"
	"sync/atomic"
	"time"

	"b-com.com/accelerator-device-plugin/internal/accept"
	"b-com.com/accelerator-device-plugin/internal/latest"
)

const kubeletSocket = "kubelet.sock"

// listener keeps track of the connections that it has accepted, so that they can all be closed. grpc itself would wait
// for connections on which no data has arrived. A connection is active once it has received data.
type listener struct {
	net.Listener
	mu     sync.Mutex
	conns  map[*accepted]bool
	left   latest.Signal // raised when a connection has been closed
	closed bool          // an active connection has been closed
}

type accepted struct {
	net.Conn
	from   *listener
	active atomic.Bool // data has been received
}

func listen(path string) (*listener, error) {
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return nil, err
	}
	return &listener{Listener: accept.WithRetries(l), conns: map[*accepted]bool{}, left: latest.NewSignal()}, nil
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
	c.from.left.Raise()
	return c.Conn.Close()
}

// active returns the number of open active connections, and reports whether any other active connection has been
// closed. Connections from peers are never active.
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

// awaitClosed waits until all active connections are closed or a value arrives on until.
func (l *listener) awaitClosed(until <-chan time.Time) {
	for {
		left := l.left.Next()
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

// closeConns closes all connections, or just the inactive ones if all is false.
func (l *listener) closeConns(all bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for c := range l.conns {
		if all || !c.active.Load() {
			_ = c.Conn.Close()
		}
	}
}
