package server

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"b-com.com/accelerator-device-plugin/internal/backlog"
	"b-com.com/accelerator-device-plugin/internal/latest"
	"b-com.com/accelerator-device-plugin/internal/logevent"
	"b-com.com/accelerator-device-plugin/inventory"
)

// endpoint is a resource with its list of devices and its registration with the kubelet.
type endpoint struct {
	server   *Server // settings and parts shared by all endpoints
	resource string
	log      *zap.Logger

	lists   *latest.Value[*list]
	sent    *latest.Value[*list]    // the newest list that a stream has sent, or skipped because nothing visible has changed
	current atomic.Pointer[session] // nil if there is none
	problem atomic.Pointer[error]   // why there is no session

	emptySince time.Time       // when the last device left; used by the conductor; zero if there are devices
	former     bool            // from an earlier generation, with no healthy device since; used by the conductor
	after      <-chan struct{} // closed when the endpoint may register; nil if it may do so right away
	cancel     context.CancelFunc
	done       chan struct{}

	// Only run uses the remaining fields.
	absent     bool           // kubelet.absent has been logged
	kubelet    identity       // the kubelet.sock used for the last connection
	superseded *session       // ended by errPeerGone, but still serving until it is replaced; nil if there is none
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

// start runs the endpoint in a new goroutine until end is called or ctx is done.
func (e *endpoint) start(ctx context.Context) {
	ctx, e.cancel = context.WithCancel(ctx)
	go func() {
		defer close(e.done)
		defer backlog.FlushOnPanic(e.log)
		e.run(ctx)
	}()
}

// end stops the endpoint and waits until its goroutine has ended.
func (e *endpoint) end() {
	e.cancel()
	<-e.done
}

// offer publishes a list of the given devices from the snapshot, unless the current list contains the same devices.
// devices must be sorted by id. Only the conductor calls it.
func (e *endpoint) offer(snapshot inventory.Snapshot, devices []*inventory.Device) {
	old, _ := e.lists.Load()
	if len(inventory.Changes(old.Devices, devices)) > 0 {
		e.lists.Store(newList(snapshot, devices))
	}
}

// awaitSent waits until a stream has sent the newest list, no stream is open, or ctx is done. Only the conductor calls
// it, so no newer list can be published in the meantime.
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

// awaitDevices waits until the endpoint has devices. It returns false if ctx is done first.
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
