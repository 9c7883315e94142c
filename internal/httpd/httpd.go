package httpd

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"time"

	"go.uber.org/zap"

	"b-com.com/accelerator-device-plugin/internal/accept"
	"b-com.com/accelerator-device-plugin/internal/backoff"
	"b-com.com/accelerator-device-plugin/internal/logevent"
)

// Answers holds the functions behind the server's responses.
type Answers struct {
	// Alive answers /healthz: nil means 200, and an error means 503. If the context's deadline has passed, the error
	// wraps the context's cause.
	Alive   func(context.Context) error
	Ready   func(context.Context) error // /readyz, like Alive
	Notes   func() []string             // additional lines in /readyz if Ready returns nil; may be nil
	Devices func(context.Context) any   // /devices, as JSON; not served if nil
	Metrics http.Handler                // /metrics; not served if nil
}

const (
	retryListen  = 5 * time.Second
	answerWithin = time.Second
)

var errSlow = fmt.Errorf("no answer within %s", answerWithin)

// Run serves the answers on a TCP address until ctx is done, and then returns nil.
func Run(ctx context.Context, address string, answers Answers, log *zap.Logger) error {
	return run(ctx, address, answers, log, retryListen)
}

func run(ctx context.Context, address string, answers Answers, log *zap.Logger, retry time.Duration) error {
	log = log.Named("http")
	return keep(ctx, Address{
		Listen: func(ctx context.Context) (net.Listener, error) {
			return new(net.ListenConfig).Listen(ctx, "tcp", address)
		},
		Handler: func(at net.Addr) http.Handler { return localOnly(address, at, answers.handler()) },
		Served:  func(at net.Addr) { log.Info("http served", logevent.HTTPServed, logevent.Address(at.String())) },
		Failed: func(err error, retry time.Duration) {
			log.Warn("http address not served, trying again", logevent.HTTPFailed,
				logevent.Address(address), logevent.Retry(retry), logevent.Err(err))
		},
		Log: log,
	}, retry)
}

// Address is an address that [Keep] serves, such as a TCP port or a Unix socket.
type Address struct {
	Listen  func(context.Context) (net.Listener, error)
	Handler func(net.Addr) http.Handler // returns the handler for the listener's address
	Served  func(net.Addr)              // logs that the address is being served
	Failed  func(error, time.Duration)  // logs that the address isn't being served, and how long until the next attempt
	Log     *zap.Logger                 // for the library's lines
}

// Keep serves an address until ctx is done, and then returns nil. If it can't listen on the address, or if the listener
// fails, Keep calls Failed once and tries again.
func Keep(ctx context.Context, a Address) error { return keep(ctx, a, retryListen) }

func keep(ctx context.Context, a Address, retry time.Duration) error {
	for {
		listener := listen(ctx, a, retry)
		if listener == nil {
			return nil
		}
		a.Served(listener.Addr())
		err := Serve(ctx, listener, a.Handler(listener.Addr()), a.Log)
		if ctx.Err() != nil {
			return nil
		}
		a.Failed(err, retry)
		if !backoff.Wait(ctx, retry) {
			return nil
		}
	}
}

// Serve serves requests without a body until ctx is done or the listener fails.
func Serve(ctx context.Context, listener net.Listener, handler http.Handler, log *zap.Logger) error {
	server := &http.Server{
		Handler:           withoutBody(handler),
		ReadHeaderTimeout: 2 * time.Second,
		ReadTimeout:       2 * time.Second,
		WriteTimeout:      5 * time.Second, // answerWithin, plus time for the client to read the response
		MaxHeaderBytes:    8 << 10,
		ErrorLog:          zap.NewStdLog(log.With(logevent.LibraryLog)),
	}
	// Serve only one request per connection, so that a client can't keep its place by sending more requests.
	server.SetKeepAlivesEnabled(false)
	(&clients{max: maxClients, patience: patience}).limit(ctx, server)
	stopped := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(stopped)
		server.Close() // when the daemon stops, requests in progress don't need a response
	})
	err := server.Serve(accept.WithRetries(listener))
	if stop() {
		server.Close() // closes the failed listener's connections
		return err
	}
	<-stopped
	return err
}

// listen tries to listen on the address until it succeeds. It returns nil if ctx is done first.
func listen(ctx context.Context, a Address, retry time.Duration) net.Listener {
	for reported := false; ; reported = true {
		listener, err := a.Listen(ctx)
		if err == nil {
			return listener
		}
		if ctx.Err() == nil && !reported {
			a.Failed(err, retry)
		}
		if !backoff.Wait(ctx, retry) {
			return nil
		}
	}
}

func (a Answers) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", probe(a.Alive, nil))
	mux.HandleFunc("GET /readyz", probe(a.Ready, a.Notes))
	if a.Devices != nil {
		mux.HandleFunc("GET /devices", func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			e := json.NewEncoder(w)
			e.SetIndent("", "  ")
			_ = e.Encode(a.Devices(r.Context())) // an error means that the client has disconnected
		})
	}
	if a.Metrics != nil {
		mux.Handle("GET /metrics", a.Metrics)
	}
	return mux
}

// probe returns a handler that responds with 200 and any notes if ask returns nil in time, and with 503 otherwise.
func probe(ask func(context.Context) error, notes func() []string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeoutCause(r.Context(), answerWithin, errSlow)
		defer cancel()
		err := ask(ctx)
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		if err != nil {
			w.WriteHeader(http.StatusServiceUnavailable)
			fmt.Fprintln(w, err)
			return
		}
		fmt.Fprintln(w, "ok")
		if notes != nil {
			for _, note := range notes() {
				fmt.Fprintln(w, note)
			}
		}
	}
}
