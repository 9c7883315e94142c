package server

import (
	"context"
	"errors"
	"io/fs"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"b-com.com/accelerator-device-plugin/internal/backlog"
	"b-com.com/accelerator-device-plugin/internal/backoff"
	"b-com.com/accelerator-device-plugin/internal/latest"
	"b-com.com/accelerator-device-plugin/internal/logevent"
	"b-com.com/accelerator-device-plugin/inventory"
)

// endpoint is one resource: its list of devices, and its registration with the kubelet.
type endpoint struct {
	server   *Server // the settings and parts that all endpoints share
	resource string
	log      *zap.Logger

	lists   *latest.Value[*list]
	sent    *latest.Value[*list]    // the newest list that a stream has sent, or has skipped because the kubelet sees no change
	current atomic.Pointer[session] // nil: none
	problem atomic.Pointer[error]   // reason why there is no session

	emptySince time.Time // of the conductor; zero: there are devices
	former     bool      // of the conductor: of an earlier generation, without a healthy device since
	cancel     context.CancelFunc
	done       chan struct{}

	// The rest belongs to run.
	absent     bool           // kubelet.absent was logged
	kubelet    identity       // the kubelet.sock of the last connection
	superseded *session       // ended by errPeerGone, and serves until it is replaced; nil: none
	ends       sync.WaitGroup // of superseded sessions
}

func newEndpoint(s *Server, resource string) *endpoint {
	e := &endpoint{
		server:   s,
		resource: resource,
		log:      s.log.With(logevent.Resource(resource)),
		lists:    latest.New(newList(inventory.Snapshot{}, nil)),
		sent:     latest.New[*list](nil),
		done:     make(chan struct{}),
	}
	e.setProblem(errors.New("not registered yet"))
	return e
}

// start starts the endpoint, which runs until end is called or ctx ends.
func (e *endpoint) start(ctx context.Context) {
	ctx, e.cancel = context.WithCancel(ctx)
	go func() {
		defer close(e.done)
		defer backlog.FlushOnPanic(e.log)
		e.run(ctx)
	}()
}

// end ends the endpoint and waits for it.
func (e *endpoint) end() {
	e.cancel()
	<-e.done
}

// offer publishes the list of these devices of the snapshot, sorted by id, unless the present
// list has the same devices. Only the conductor calls it.
func (e *endpoint) offer(snapshot inventory.Snapshot, devices []*inventory.Device) {
	old, _ := e.lists.Load()
	if len(inventory.Changes(old.Devices, devices)) > 0 {
		e.lists.Store(newList(snapshot, devices))
	}
}

// awaitSent blocks until a stream has sent the newest list, or no stream is open, or ctx
// ends. Only the conductor calls it: no newer list is published meanwhile.
func (e *endpoint) awaitSent(ctx context.Context) {
	newest, _ := e.lists.Load()
	for {
		session := e.current.Load()
		if session == nil {
			return
		}
		count, ended := session.streams.Load()
		sent, more := e.sent.Load()
		if count.open == 0 || sent == newest {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-ended:
		case <-more:
		}
	}
}

// ready returns nil if the endpoint has no devices, or is registered with a stream open.
func (e *endpoint) ready() error {
	if l, _ := e.lists.Load(); len(l.Devices) == 0 {
		return nil
	}
	if s := e.current.Load(); s != nil {
		return s.ready()
	}
	return *e.problem.Load()
}

func (e *endpoint) setProblem(err error) { e.problem.Store(&err) }

// steadyAfter is how long a session must have lasted so that the next one begins without a backoff
// after the loss of its socket or stream. So a program that deletes the sockets as soon as they
// are made, or a kubelet that closes each stream at once, causes no storm of registrations.
const steadyAfter = time.Second

// run runs one session after the other until ctx ends.
func (e *endpoint) run(ctx context.Context) {
	defer func() {
		e.replace(nil)
		e.ends.Wait()
	}()
	retry := backoff.Backoff{First: e.server.cfg.BackoffMin, Most: e.server.cfg.BackoffMax}
	for {
		if !e.awaitDevices(ctx) {
			return
		}
		// Read after awaitDevices: this session satisfies the calls of Reregister until now.
		reregister := e.server.reregister.Next()
		began := time.Now()
		replacing := e.superseded != nil
		tried, err := e.runSession(ctx, reregister)
		if ctx.Err() != nil {
			return
		}
		e.setProblem(err)
		lived := time.Since(began)
		atOnce := errors.Is(err, errReregister) || errors.Is(err, errKubeletReplaced) || errors.Is(err, errPeerGone) ||
			(lived >= steadyAfter || replacing) && (errors.Is(err, errSocketLost) || errors.Is(err, errStreamsEnded))
		if atOnce || lived >= max(steadyAfter, e.server.cfg.BackoffMax) {
			retry.Reset()
		}
		var wait time.Duration
		if !atOnce {
			wait = retry.Next()
		}
		e.report(err, wait)
		if e.pause(ctx, wait, tried, reregister) {
			retry.Reset()
		}
	}
}

// report logs why a session ended.
func (e *endpoint) report(err error, wait time.Duration) {
	switch {
	case errors.Is(err, errKubeletReplaced):
		// Logged when the new kubelet is connected.
	case errors.Is(err, errSocketLost):
		e.log.Warn("socket lost", logevent.SocketLost, logevent.Retry(wait))
	case errors.Is(err, errReregister), errors.Is(err, errStreamsEnded),
		errors.Is(err, errConnClosed), errors.Is(err, errPeerGone):
		e.log.Info("registration ended", logevent.RegistrationEnded, logevent.Reason(err.Error()), logevent.Retry(wait))
	case errors.Is(err, errNoKubelet):
		if !e.absent {
			e.absent = true
			e.log.Info("kubelet absent", logevent.KubeletAbsent, logevent.Socket(e.server.directory.kubelet), logevent.Err(err))
		}
	default:
		e.server.cfg.Metrics.RegistrationFailed(e.resource)
		e.log.Warn("registration failed", logevent.RegisterFailed, logevent.Err(err), logevent.Retry(wait))
	}
}

// noteKubelet records the kubelet of a connection, and logs a restart if it differs from the last
// one.
func (e *endpoint) noteKubelet(kubelet identity) {
	if e.kubelet != kubelet && e.kubelet != (identity{}) {
		e.server.cfg.Metrics.KubeletRestarted(e.resource)
		e.log.Info("kubelet restarted", logevent.KubeletRestarted)
	}
	e.kubelet = kubelet
	e.absent = false
}

// awaitDevices blocks until the endpoint has devices. It returns false if ctx ends first.
func (e *endpoint) awaitDevices(ctx context.Context) bool {
	for {
		l, stale := e.lists.Load()
		if len(l.Devices) > 0 {
			return true
		}
		select {
		case <-ctx.Done():
			return false
		case <-stale:
		}
	}
}

// pause blocks for a backoff. It returns true early if kubelet.sock is no longer the file that was
// tried, or if Reregister is called.
func (e *endpoint) pause(ctx context.Context, wait time.Duration, tried identity, reregister <-chan struct{}) bool {
	if wait == 0 {
		return false
	}
	over := time.After(wait)
	for {
		changed := e.server.directory.changed.Next()
		if present, err := identify(e.server.directory.kubelet, fs.ModeSocket); err == nil && present != tried {
			return true
		}
		select {
		case <-ctx.Done():
			return false
		case <-over:
			return false
		case <-reregister:
			return true
		case <-changed:
		}
	}
}
