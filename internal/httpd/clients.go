package httpd

import (
	"context"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"
)

const (
	maxClients = 64
	patience   = 10 * time.Millisecond // the least time that a client has, so that its request is read before it is judged
)

// clients bounds the connections of a server. Above [maxClients] it closes the one
// that has waited longest for its client: for the rest of a request, or for an answer
// to be read. A connection whose answer is being made is never closed; that takes
// about a second at most, and the next connection waits until then.
//
// The newest connection is always served, so a probe gets its answer however many
// clients send nothing. There is no limit for each address: on loopback all clients
// have the same one.
type clients struct {
	mu     sync.Mutex
	open   []*client // in the order of since
	ending int       // closed here, and not yet given up by net/http
}

type client struct {
	conn   net.Conn
	since  time.Time // when it began to wait for its client
	answer bool      // its answer is being made: it waits for us
}

type clientKey struct{}

// attach makes server report its connections. Accept waits while there is no room.
func (c *clients) attach(ctx context.Context, server *http.Server) {
	server.ConnContext = func(ctx context.Context, conn net.Conn) context.Context {
		return context.WithValue(ctx, clientKey{}, conn)
	}
	server.ConnState = func(conn net.Conn, state http.ConnState) {
		switch state {
		case http.StateNew: // called by the goroutine that accepts
			c.waits(conn, true)
			for d := c.makeRoom(); d > 0 && wait(ctx, d); {
				d = c.makeRoom()
			}
		case http.StateIdle:
			c.waits(conn, false)
		case http.StateClosed:
			c.ended(conn)
		}
	}
	next := server.Handler
	server.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		conn := r.Context().Value(clientKey{}).(net.Conn)
		if r.ContentLength == 0 { // a request with a body may not be complete yet
			c.answers(conn)
		}
		next.ServeHTTP(&firstWrite{w, func() { c.waits(conn, false) }}, r)
	})
}

// waits notes that conn waits for its client from now on. A connection that was
// closed here is noted only if it is new.
func (c *clients) waits(conn net.Conn, isNew bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.remove(conn) || isNew {
		c.open = append(c.open, &client{conn: conn, since: time.Now()})
	}
}

// answers notes that the answer to conn's request is being made.
func (c *clients) answers(conn net.Conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if i := c.index(conn); i >= 0 {
		c.open[i].answer = true
	}
}

func (c *clients) ended(conn net.Conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.remove(conn) {
		c.ending--
	}
}

// makeRoom closes a connection if there are too many. It returns how long to wait
// before it is called again, or 0 if there is room.
func (c *clients) makeRoom() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.open) <= maxClients {
		return 0
	}
	oldest := slices.IndexFunc(c.open, func(k *client) bool { return !k.answer })
	// net/http keeps a connection for half a second after some errors, closed or not.
	if oldest < 0 || c.ending >= maxClients {
		return patience
	}
	if left := patience - time.Since(c.open[oldest].since); left > 0 {
		return left
	}
	c.open[oldest].conn.Close()
	c.open = slices.Delete(c.open, oldest, oldest+1)
	c.ending++
	return 0
}

func (c *clients) index(conn net.Conn) int {
	return slices.IndexFunc(c.open, func(k *client) bool { return k.conn == conn })
}

func (c *clients) remove(conn net.Conn) (found bool) {
	i := c.index(conn)
	if i >= 0 {
		c.open = slices.Delete(c.open, i, i+1)
	}
	return i >= 0
}

// firstWrite calls begin before the first write of an answer.
type firstWrite struct {
	http.ResponseWriter
	begin func()
}

func (w *firstWrite) Write(b []byte) (int, error) {
	if w.begin != nil {
		w.begin()
		w.begin = nil
	}
	return w.ResponseWriter.Write(b)
}
