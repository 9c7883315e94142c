// Package pipes provides a network within a process for tests. Its connections come from [net.Pipe], so they work in a
// testing/synctest bubble. A [Listener] owns the connections that haven't been accepted yet.
package pipes

import (
	"context"
	"errors"
	"net"
	"sync"
)

// Listener is a [net.Listener]. It is safe for concurrent use.
type Listener struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

// Listen returns a listener. Up to backlog connections can wait to be accepted.
func Listen(backlog int) *Listener {
	return &Listener{conns: make(chan net.Conn, backlog), closed: make(chan struct{})}
}

// Accept waits for the next connection.
func (l *Listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// Close closes the listener and the connections that haven't been accepted. From then on, Dial fails.
func (l *Listener) Close() error {
	l.once.Do(func() { close(l.closed) })
	for {
		select {
		case c := <-l.conns:
			c.Close()
		default:
			return nil
		}
	}
}

// Addr returns an address that is valid in a URL.
func (l *Listener) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 6443} }

// Dial connects to the listener. It ignores the address.
func (l *Listener) Dial(ctx context.Context, _, _ string) (net.Conn, error) {
	ours, theirs := net.Pipe()
	select {
	case <-l.closed:
		return nil, errors.New("connection refused")
	default:
	}
	select {
	case l.conns <- theirs:
		return ours, nil
	case <-l.closed:
		return nil, errors.New("connection refused")
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
