// Package pipes is a network within the process, for tests. Its connections are pipes of [net.Pipe], so they can be
// used in a bubble of testing/synctest. A [Listener] owns the connections that have not been accepted yet.
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

// Listen returns a listener. Up to backlog connections can be dialled before they are accepted.
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

// Close closes the listener and the connections that it has not accepted. Later dials are refused.
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

// Addr returns an address that is valid in URLs.
func (l *Listener) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 6443} }

// Dial connects. It ignores the address.
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
