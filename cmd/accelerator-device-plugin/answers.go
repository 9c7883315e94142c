package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"b-com.com/accelerator-device-plugin/internal/config"
	"b-com.com/accelerator-device-plugin/internal/httpd"
	"b-com.com/accelerator-device-plugin/internal/metrics"
	"b-com.com/accelerator-device-plugin/internal/view"
	"b-com.com/accelerator-device-plugin/inventory"
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
			holders, _ := shared.latest(ctx) // not known: shown as none
			return view.Rows(snapshot.Devices, cfg.HostDevRoot, holders.lookup())
		},
	}
}

// alive returns nil while the goroutines of watcher, inventory and server go on.
func alive(ctx context.Context, n *node, srv *server.Server) error {
	var loop error
	if n.inventory.Alive(ctx) != nil {
		loop = fmt.Errorf("inventory: %w", context.Cause(ctx))
	}
	return errors.Join(loop, n.watcher.Alive(), srv.Alive())
}

// ready returns nil when the first scan is done, each resource has a stream, and nothing
// is stuck.
func ready(ctx context.Context, n *node, srv *server.Server) error {
	return errors.Join(srv.Ready(), alive(ctx, n, srv))
}

// stateOf returns the state that the gauges show.
func stateOf(mode func() string, inv *inventory.Inventory, srv *server.Server) metrics.State {
	return metrics.State{
		Mode: mode,
		Devices: func() (uint64, []metrics.Device) {
			snapshot, _ := inv.Latest()
			all := make([]metrics.Device, len(snapshot.Devices))
			for i, d := range snapshot.Devices {
				all[i] = measured(d)
			}
			return snapshot.Version, all
		},
		Resources: func() []metrics.Resource {
			var all []metrics.Resource
			for _, r := range srv.Resources() {
				all = append(all, metrics.Resource{Name: r.Name, Streams: r.Streams, Ready: r.Ready == nil})
			}
			return all
		},
	}
}

// tombstoneReasons are those of a device that is held, or may be held, as what it is no
// longer.
var tombstoneReasons = []string{
	inventory.ReasonRemoved, inventory.ReasonRemovedInUse, inventory.ReasonReplacedInUse, inventory.ReasonMoving,
	inventory.ReasonNodeChanged,
}

// measured returns a device as the metrics show it.
func measured(d *inventory.Device) metrics.Device {
	m := metrics.Device{
		ID: d.ID, PCI: d.PCIAddress, PCIID: d.PCIID, Family: d.Family, Resource: d.OfferedAs, NUMANode: d.NUMANode,
		Health: d.Health.String(), Reasons: d.Reasons, AFU: d.AFUID, Interface: d.InterfaceID,
	}
	if i := slices.IndexFunc(d.Reasons, func(r string) bool { return slices.Contains(tombstoneReasons, r) }); i >= 0 {
		m.Tombstone = d.Reasons[i]
	}
	return m
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
