package daemon

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"b-com.com/accelerator-device-plugin/daemon/owner"
	"b-com.com/accelerator-device-plugin/internal/httpd"
	"b-com.com/accelerator-device-plugin/internal/metrics"
)

// switchable holds the functions behind /healthz, /readyz and /devices. They change once the daemon owns the node.
type switchable struct {
	owned   *owner.Node
	serving atomic.Pointer[httpd.Answers]
}

func (s *switchable) use(a httpd.Answers) { s.serving.Store(&a) }

// now returns the functions that are behind the endpoints at the moment. A daemon that is waiting for the node is
// alive, but doesn't have any devices. It isn't ready, unless it is waiting for a daemon for the same API with a
// different naming, because during an upgrade, Kubernetes doesn't stop that daemon until this one is ready.
func (s *switchable) now() httpd.Answers {
	if a := s.serving.Load(); a != nil {
		return *a
	}
	return httpd.Answers{
		Alive: func(context.Context) error { return nil },
		Ready: func(context.Context) error {
			if s.owned.WaitsFor() == owner.ForNaming {
				return nil
			}
			return cmp.Or(s.owned.Waiting(), errStarting)
		},
		Notes:   func() []string { return nil },
		Devices: func(context.Context) any { return []struct{}{} },
	}
}

var errStarting = errors.New("starting")

func (s *switchable) answers(m *metrics.Metrics) httpd.Answers {
	return httpd.Answers{
		Metrics: m.Handler(),
		Alive:   func(ctx context.Context) error { return s.now().Alive(ctx) },
		Ready:   func(ctx context.Context) error { return s.now().Ready(ctx) },
		Notes: func() (all []string) {
			if err := s.owned.Waiting(); err != nil { // the daemon may be ready even though it is waiting
				all = append(all, err.Error())
			}
			return append(all, s.now().Notes()...)
		},
		Devices: func(ctx context.Context) any { return s.now().Devices(ctx) },
	}
}

// answers returns the functions behind /healthz, /readyz and /devices.
func answers(n *Node, api API, shown *stateSource) httpd.Answers {
	alive := func(ctx context.Context) error { return n.alive(ctx, api) }
	return httpd.Answers{
		Alive: alive,
		Ready: func(ctx context.Context) error { return errors.Join(api.Ready(), alive(ctx), shown.lockCheck()) },
		Notes: n.Watcher.Lost,
		Devices: func(ctx context.Context) any {
			list, _, _ := shown.list(ctx) // if the holders aren't known, none are shown
			return list.Rows()
		},
	}
}

// alive returns an error if a main goroutine of the watcher, the inventory or the API hangs.
func (n *Node) alive(ctx context.Context, api API) error {
	var loop error
	if n.Inventory.Alive(ctx) != nil {
		loop = fmt.Errorf("inventory: %w", context.Cause(ctx))
	}
	return errors.Join(loop, n.Watcher.Alive(), api.Alive())
}
