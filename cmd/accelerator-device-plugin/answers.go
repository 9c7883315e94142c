package main

import (
	"context"
	"errors"
	"fmt"

	"b-com.com/accelerator-device-plugin/internal/httpd"
	"b-com.com/accelerator-device-plugin/internal/metrics"
	"b-com.com/accelerator-device-plugin/server"
)

// answers returns the functions behind /metrics, /healthz, /readyz and /devices.
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

// ready returns nil when the first scan is done, each resource has a stream, and no main goroutine
// hangs.
func ready(ctx context.Context, n *node, srv *server.Server) error {
	return errors.Join(srv.Ready(), alive(ctx, n, srv))
}

// alive returns an error if the main goroutine of the watcher, the inventory or the server hangs.
func alive(ctx context.Context, n *node, srv *server.Server) error {
	var loop error
	if n.inventory.Alive(ctx) != nil {
		loop = fmt.Errorf("inventory: %w", context.Cause(ctx))
	}
	return errors.Join(loop, n.watcher.Alive(), srv.Alive())
}
