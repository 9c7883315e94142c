package main

import (
	"context"
	"errors"
	"time"

	"b-com.com/accelerator-device-plugin/internal/config"
	"b-com.com/accelerator-device-plugin/internal/httpd"
	"b-com.com/accelerator-device-plugin/internal/metrics"
	"b-com.com/accelerator-device-plugin/internal/view"
	"b-com.com/accelerator-device-plugin/server"
)

// answers returns the answers of the HTTP server, which runs until ctx ends.
func answers(ctx context.Context, cfg config.Config, n *node, srv *server.Server, m *metrics.Metrics) httpd.Answers {
	shared := shareHolders(ctx, cfg.PodResourcesSocket)
	return httpd.Answers{
		Metrics: m.Handler(),
		Alive:   func(ctx context.Context) error { return alive(ctx, n, srv) },
		Ready:   func(ctx context.Context) error { return ready(ctx, n, srv) },
		Devices: func(ctx context.Context) any {
			snapshot, _ := n.inventory.Latest()
			holders, _ := shared.latest(ctx) // unknown holders are shown as none
			return view.List{Devices: snapshot.Devices, HostDev: cfg.HostDevRoot, Holders: holders.lookup()}.Rows()
		},
	}
}

// ready returns nil when the first scan is done, each resource has a stream, and nothing
// is stuck.
func ready(ctx context.Context, n *node, srv *server.Server) error {
	return errors.Join(srv.Ready(), alive(ctx, n, srv))
}

// holdersAge is the greatest age of the kubelet's answer that /devices shows. The kubelet
// answers 100 requests a second, for all its clients together.
const holdersAge = time.Second

// sharedHolders asks the kubelet for the holders of devices at most once in [holdersAge],
// however many callers there are. It keeps an answer for that time, and an error too.
type sharedHolders struct {
	ask   func() (held, error)
	turn  chan struct{} // full while a caller uses the fields below
	asked time.Time
	held  held
	err   error
}

// shareHolders returns a sharedHolders for the kubelet behind socket. A request ends with
// ctx, not with the caller that made it: other callers wait for the same answer.
func shareHolders(ctx context.Context, socket string) *sharedHolders {
	return &sharedHolders{
		ask:  func() (held, error) { return askHolders(ctx, socket, holdersSoon) },
		turn: make(chan struct{}, 1),
	}
}

// latest returns the holders of devices. It blocks while the kubelet is asked. A caller
// that waits for the request of another one returns when ctx ends.
func (s *sharedHolders) latest(ctx context.Context) (held, error) {
	select {
	case s.turn <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	defer func() { <-s.turn }()
	if s.asked.IsZero() || time.Since(s.asked) >= holdersAge {
		s.asked = time.Now()
		s.held, s.err = s.ask()
	}
	return s.held, s.err
}
