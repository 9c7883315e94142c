package httpd

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"

	"b-com.com/accelerator-device-plugin/internal/backoff"
)

// maxClients is the maximum number of connections for requests without a body.
const maxClients = 64

// patience is how long a connection is safe from being replaced after it was accepted, and again after its response
// began, so that a client that sends its request immediately isn't disconnected before the request has been read. It
// also limits a flood to 64 connections per 25 ms.
const patience = 25 * time.Millisecond

// memory is how long a server that has run out of room remembers that its connections came from more than one address.
const memory = time.Minute

// clients limits a server's connections. For each connection beyond max, it closes another one: the address with the
// most connections loses the connection that has been waiting longest for its client to send a request or read the
// response. So a client that opens many connections loses its own, and probes are answered even if many clients don't
// send anything. A connection whose response is being prepared isn't closed. If that is the case for all connections, a
// new one waits for up to about a second, and no others are accepted in the meantime.
//
// The new connection itself is closed if its address already has many connections and the new one would displace
// another address's connection or keep other addresses waiting. There is no limit per address, because on loopback or
// behind a gateway, all clients have the same address.
type clients struct {
	max      int
	patience time.Duration

	mu      sync.Mutex
	open    []client  // ordered by since
	several time.Time // the last time there was no room and the connections came from several addresses
}

type client struct {
	conn      net.Conn
	host      string    // its address without the port; the same for all connections on a Unix socket
	since     time.Time // when it was accepted, its request was complete, or its response began, whichever was last
	answering bool      // the request is complete, but the response hasn't begun
	idle      bool      // a request has been answered and the next one hasn't begun; only with keep-alive
}

type clientKey struct{}

// connection is a connection and the clients value that tracks it.
type connection struct {
	*clients
	conn net.Conn
}

// limit limits the number of the server's connections. While there is no room, the server doesn't accept new ones.
func (c *clients) limit(ctx context.Context, server *http.Server) {
	server.ConnContext = func(ctx context.Context, conn net.Conn) context.Context {
		return context.WithValue(ctx, clientKey{}, connection{c, conn})
	}
	server.ConnState = func(conn net.Conn, state http.ConnState) {
		switch state {
		case http.StateNew: // runs in the goroutine that accepts
			host, _, _ := net.SplitHostPort(conn.RemoteAddr().String())
			d, ok := c.makeRoom(host)
			for d > 0 && backoff.Wait(ctx, d) {
				d, ok = c.makeRoom(host)
			}
			if !ok {
				closeNow(conn)
				return
			}
			c.add(conn, host)
		case http.StateActive, http.StateIdle: // a request begins, or has been answered
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

// Complete records that the entire request has been received, so that its connection isn't closed to make room for
// another one before its response begins. Complete returns false if the connection has already been closed.
func Complete(r *http.Request) bool {
	c, limited := r.Context().Value(clientKey{}).(connection)
	return !limited || c.turn(c.conn, true)
}

// withoutBody rejects requests with a body, because the server would wait for a body that may never arrive.
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

// turn records whether the response for conn is being prepared (answering) or has begun. It reports whether conn is
// still open.
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

// rest records that conn has become idle or, if idle is false, that its next request has begun.
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

func (c *clients) add(conn net.Conn, host string) {
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

// makeRoom makes room for a connection from host, by closing another connection if necessary. If there is no room yet,
// left is the time to wait before the next attempt. ok is false if the new connection must be closed instead.
func (c *clients) makeRoom(host string) (left time.Duration, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.open) < c.max {
		return 0, true
	}
	of := map[string]int{host: 1}
	for _, k := range c.open {
		of[k.host]++
	}
	now := time.Now()
	if len(of) > 1 {
		c.several = now
	}
	i := -1
	for j, k := range c.open {
		if !k.answering && (i < 0 || of[k.host] > of[c.open[i].host]) {
			i = j
		}
	}
	left = c.patience
	if i >= 0 {
		left -= now.Sub(c.open[i].since)
	}
	switch {
	case i >= 0 && of[host] > max(of[c.open[i].host], c.max/4):
		return 0, false // the new connection's address has the most connections, all of which are waiting for responses
	case left > 0 && of[host] > c.max/2 && now.Sub(c.several) < memory:
		return 0, false // waiting would delay connections from other addresses
	case left > 0:
		return left, true
	}
	closeNow(c.open[i].conn)
	c.open = slices.Delete(c.open, i, i+1)
	return 0, true
}

// closeNow closes a connection without waiting for its client. With TLS, Close would send a message first.
func closeNow(conn net.Conn) {
	if t, ok := conn.(*tls.Conn); ok {
		conn = t.NetConn()
	}
	conn.Close()
}

// firstWrite is a ResponseWriter that calls a function before the first write.
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
