package httpd

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"
)

// maxClients is the largest number of connections for requests without a body.
const maxClients = 64

// patience is the time for which a connection is kept in any case after it was accepted, and after
// its answer has begun. So a client that sends its request at once is not disconnected before the
// request is read. It also limits a flood to 64 connections in 25 ms.
const patience = 25 * time.Millisecond

// clients limits the connections of a server. For each connection above max it closes another one: of the
// connections from the address that has the most, the one that has waited longest for its client to send a
// request or to read the answer. So a client that opens many connections closes its own, and a probe is
// answered even if many clients send nothing. A connection whose answer is being prepared is not closed. If
// all are such, a new connection waits, for about a second at most.
//
// There is no limit per address: on loopback all clients have the same address.
type clients struct {
	max      int
	patience time.Duration

	mu   sync.Mutex
	open []client // in the order of since
}

type client struct {
	conn      net.Conn
	host      string    // its address without the port; all connections of a Unix socket have the same
	since     time.Time // the last of: accepted, request complete, answer begun
	answering bool      // the request is complete, and the answer has not begun
	idle      bool      // a request was answered, and the next one has not begun: only with keep-alive
}

type clientKey struct{}

// connection is one of the connections of clients.
type connection struct {
	*clients
	conn net.Conn
}

// limit limits the connections of server. While there is no room, the server does not accept.
func (c *clients) limit(ctx context.Context, server *http.Server) {
	server.ConnContext = func(ctx context.Context, conn net.Conn) context.Context {
		return context.WithValue(ctx, clientKey{}, connection{c, conn})
	}
	server.ConnState = func(conn net.Conn, state http.ConnState) {
		switch state {
		case http.StateNew: // in the goroutine that accepts
			for d := c.makeRoom(); d > 0 && wait(ctx, d); {
				d = c.makeRoom()
			}
			c.add(conn)
		case http.StateActive, http.StateIdle: // a request begins, a request was answered
			c.rest(conn, state == http.StateIdle)
		case http.StateClosed:
			c.remove(conn)
		}
	}
	next := server.Handler
	server.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		conn := r.Context().Value(clientKey{}).(connection).conn
		next.ServeHTTP(&firstWrite{w, func() { c.turn(conn, false) }}, r)
	})
}

// Complete records that the whole request was received: from now on its connection is not closed to make
// room for another one. It returns false if the connection was already closed.
func Complete(r *http.Request) bool {
	c, limited := r.Context().Value(clientKey{}).(connection)
	return !limited || c.turn(c.conn, true)
}

// withoutBody refuses requests with a body: the server would wait for a body that may never come.
func withoutBody(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ContentLength != 0 {
			http.Error(w, "body: found one, want none", http.StatusRequestEntityTooLarge)
			return
		}
		if Complete(r) {
			next.ServeHTTP(w, r)
		}
	})
}

// turn records that the answer for conn is being prepared (answering), or that it has begun. It
// reports whether conn is still open.
func (c *clients) turn(conn net.Conn, answering bool) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	i := c.index(conn)
	if i < 0 {
		return false
	}
	k := c.open[i]
	c.open = slices.Delete(c.open, i, i+1)
	k.since, k.answering = time.Now(), answering
	c.open = append(c.open, k)
	return true
}

// rest records that conn becomes idle, or that its next request begins.
func (c *clients) rest(conn net.Conn, idle bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	i := c.index(conn)
	if i < 0 || c.open[i].idle == idle {
		return
	}
	k := client{conn: conn, host: c.open[i].host, since: time.Now(), idle: idle}
	c.open = append(slices.Delete(c.open, i, i+1), k)
}

func (c *clients) add(conn net.Conn) {
	host, _, _ := net.SplitHostPort(conn.RemoteAddr().String())
	c.mu.Lock()
	defer c.mu.Unlock()
	c.open = append(c.open, client{conn: conn, host: host, since: time.Now()})
}

func (c *clients) remove(conn net.Conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if i := c.index(conn); i >= 0 {
		c.open = slices.Delete(c.open, i, i+1)
	}
}

func (c *clients) index(conn net.Conn) int {
	return slices.IndexFunc(c.open, func(k client) bool { return k.conn == conn })
}

// makeRoom closes a connection if there is no room for another one. It returns the time to
// wait before the next attempt, or 0 if there is room.
func (c *clients) makeRoom() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.open) < c.max {
		return 0
	}
	of := map[string]int{}
	for _, k := range c.open {
		of[k.host]++
	}
	i := -1
	for j, k := range c.open {
		if !k.answering && (i < 0 || of[k.host] > of[c.open[i].host]) {
			i = j
		}
	}
	if i < 0 {
		return c.patience
	}
	if left := c.patience - time.Since(c.open[i].since); left > 0 {
		return left
	}
	closeNow(c.open[i].conn)
	c.open = slices.Delete(c.open, i, i+1)
	return 0
}

// closeNow closes a connection without waiting for its client: TLS would first send that it closes.
func closeNow(conn net.Conn) {
	if t, ok := conn.(*tls.Conn); ok {
		conn = t.NetConn()
	}
	conn.Close()
}

// firstWrite calls a function before the first write.
type firstWrite struct {
	http.ResponseWriter
	call func()
}

func (w *firstWrite) Write(b []byte) (int, error) {
	if w.call != nil {
		w.call()
		w.call = nil
	}
	return w.ResponseWriter.Write(b)
}

// Unwrap returns the wrapped writer, for [http.ResponseController].
func (w *firstWrite) Unwrap() http.ResponseWriter { return w.ResponseWriter }
