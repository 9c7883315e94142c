package main

import (
	"context"
	"errors"
	"time"

	"b-com.com/accelerator-device-plugin/internal/httpd"
	"b-com.com/accelerator-device-plugin/internal/metrics"
	"b-com.com/accelerator-device-plugin/server"
)

// answers returns the answers of the HTTP server.
func answers(n *node, srv *server.Server, shown *stateSource, m *metrics.Metrics) httpd.Answers {
	return httpd.Answers{
		Metrics: m.Handler(),
		Alive:   func(ctx context.Context) error { return alive(ctx, n, srv) },
		Ready:   func(ctx context.Context) error { return ready(ctx, n, srv) },
		Devices: func(ctx context.Context) any {
			list, _, _ := shown.list(ctx) // unknown holders are shown as none
			return list.Rows()
		},
	}
}

// ready returns nil when the first scan is done, each resource has a stream, and nothing
// is stuck.
func ready(ctx context.Context, n *node, srv *server.Server) error {
	return errors.Join(srv.Ready(), alive(ctx, n, srv))
}

// holdersAge is the longest time for which an answer of the kubelet is used. The kubelet answers 100
// requests a second, for all its clients together.
const holdersAge = time.Second

// holdings has the holders of devices, and the devices that were given to containers which the kubelet
// may not name yet.
type holdings struct {
	held   held            // nil: not known
	given  map[string]bool // by id
	unsure bool            // the kubelet has just started
}

// gave reports whether a device was given to a container, whether or not the kubelet names it.
func (h holdings) gave(id string) bool { return h.given[id] }

// sharedHolders asks the kubelet for the holders of devices at most once in [holdersAge], for any
// number of callers. It keeps an answer or an error for that time.
type sharedHolders struct {
	ask    func() (held, error)
	fresh  func() bool // reports whether the kubelet has just started
	owns   func(resource, id string) bool
	given  *server.Allocations
	turn   chan struct{} // full while a caller uses the fields below
	asked  time.Time
	held   held
	unsure bool
	err    error
}

// shareHolders returns a sharedHolders for the kubelet of source. A request to the kubelet ends with
// ctx and not with the caller that began it, because other callers wait for the same answer.
func shareHolders(ctx context.Context, source holderSource) *sharedHolders {
	return &sharedHolders{
		ask:   func() (held, error) { return askHolders(ctx, source.socket, holdersSoon) },
		fresh: func() bool { return justStarted(source.socket) },
		owns:  source.owns, given: source.given,
		turn: make(chan struct{}, 1),
	}
}

// latest returns the holders of devices. It blocks while the kubelet is asked. A caller that waits for
// another caller's request returns when ctx ends.
func (s *sharedHolders) latest(ctx context.Context) (holdings, error) {
	select {
	case s.turn <- struct{}{}:
	case <-ctx.Done():
		return holdings{}, ctx.Err()
	}
	defer func() { <-s.turn }()
	if s.asked.IsZero() || time.Since(s.asked) >= holdersAge {
		s.asked, s.unsure = time.Now(), s.fresh()
		s.held, s.err = s.ask()
	}
	if s.err != nil {
		return holdings{}, s.err
	}
	given := map[string]bool{}
	for key := range s.held {
		given[key.ID] = given[key.ID] || s.owns(key.Resource, key.ID)
	}
	for _, a := range s.given.Compare(s.asked, s.held.names) {
		given[a.ID] = true
	}
	return holdings{s.held, given, s.unsure}, nil
}
