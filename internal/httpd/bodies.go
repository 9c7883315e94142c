package httpd

import (
	"context"
	"crypto/tls"
	"io"
	stdlog "log"
	"net"
	"net/http"
	"sync"
	"time"

	"go.uber.org/zap"

	"b-com.com/accelerator-device-plugin/internal/accept"
	"b-com.com/accelerator-device-plugin/internal/logevent"
)

// Limits for [ServeBodies]. There is room for several API servers, each of which keeps at most 25 idle connections.
const (
	maxBodyClients = 128
	// bodyPatience is longer than patience, because a client needs time for the TLS handshake and may be on another
	// network.
	bodyPatience = 100 * time.Millisecond
	// drain is how long a server that is being stopped waits for requests in progress to be answered.
	drain = 10 * time.Second
)

// ServeBodies serves requests with bodies over HTTP/1.1 until ctx is done or the listener fails. When ctx is done, it
// waits for requests in progress to be answered. A connection can serve many requests. There are at most 128
// connections. When all of them are in use, a new connection replaces an old one: the address with the most connections
// loses the connection that has been waiting longest for its client. If the new connection comes from that same
// address, it is closed instead. The handler must limit the memory used for bodies, and call [Complete] after reading
// one.
//
// HTTP/2 isn't supported, because a single connection could then start many requests, so limiting the number of
// connections wouldn't limit the memory.
func ServeBodies(ctx context.Context, listener net.Listener, handler http.Handler, log *zap.Logger) error {
	server := &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       5 * time.Second, // includes the TLS handshake and the body
		WriteTimeout:      8 * time.Second,
		IdleTimeout:       90 * time.Second,
		MaxHeaderBytes:    8 << 10,
		ErrorLog:          stdlog.New(newFewLines(log), "", 0),
		TLSNextProto:      map[string]func(*http.Server, *tls.Conn, http.Handler){},
	}
	(&clients{max: maxBodyClients, patience: bodyPatience}).limit(ctx, server)
	stopped := make(chan error, 1)
	stop := context.AfterFunc(ctx, func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), drain)
		defer cancel()
		stopped <- server.Shutdown(ctx)
		server.Close()
	})
	err := server.Serve(accept.WithRetries(listener))
	if stop() {
		server.Close() // closes the failed listener's connections
		return err
	}
	return <-stopped
}

// fewLines drops all but the first ten lines each second, because any client can cause a line by failing a TLS
// handshake.
type fewLines struct {
	out io.Writer

	mu    sync.Mutex
	since time.Time
	lines int
}

func newFewLines(log *zap.Logger) *fewLines {
	return &fewLines{out: zap.NewStdLog(log.With(logevent.LibraryLog)).Writer()}
}

func (f *fewLines) Write(line []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if now := time.Now(); now.Sub(f.since) >= time.Second {
		f.since, f.lines = now, 0
	}
	if f.lines++; f.lines > 10 {
		return len(line), nil
	}
	return f.out.Write(line)
}
