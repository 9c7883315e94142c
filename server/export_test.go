package server

import (
	"context"
	"slices"
	"time"

	"go.uber.org/zap"
	"k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"b-com.com/accelerator-device-plugin/cdi"
	"b-com.com/accelerator-device-plugin/internal/metrics"
	"b-com.com/accelerator-device-plugin/internal/pulse"
	"b-com.com/accelerator-device-plugin/inventory"
	"b-com.com/accelerator-device-plugin/offer"
)

// Offer makes the server offer these devices under a resource, and returns a func that calls Allocate for it. It works
// without a kubelet and without sockets, which can't be used in a synctest bubble. Offer can be called again for the
// same resource, as happens after its retirement.
func (s *Server) Offer(ctx context.Context, resource string, devices ...*inventory.Device) func(ids ...string) error {
	e := newEndpoint(s, resource)
	s.injection.want([]offer.Resource{{Name: resource, Devices: devices}})
	e.offer(inventory.Snapshot{}, devices)
	return func(ids ...string) error {
		_, err := (&plugin{endpoint: e}).Allocate(ctx, &v1beta1.AllocateRequest{
			ContainerRequests: []*v1beta1.ContainerAllocateRequest{{DevicesIds: ids}},
		})
		return err
	}
}

// Allocated returns the allocated IDs by resource, sorted.
func (s *Server) Allocated() map[string][]string {
	all := map[string][]string{}
	for key := range s.cfg.Allocations.All() {
		all[key.Resource] = append(all[key.Resource], key.ID)
	}
	for _, ids := range all {
		slices.Sort(ids)
	}
	return all
}

// SetStuckAfter sets how long it takes before the server counts as stuck. It must be called before Run.
func (s *Server) SetStuckAfter(d time.Duration) { s.pulse = pulse.New(d) }

// SetMoveTimeout sets how long a device that is moving to another resource waits to be removed from the old list. It
// must be called before Run.
func (s *Server) SetMoveTimeout(d time.Duration) { s.move = d }

// SetDrain sets how long calls in flight can take when a session ends. It must be called before Run.
func (s *Server) SetDrain(d time.Duration) { s.drain = d }

// Injection is the part of a server that writes the CDI spec, without the rest.
type Injection struct{ *injection }

// NewInjection returns an Injection that writes to spec, with no devices so far. injected is [Config.Injected].
func NewInjection(spec *cdi.Spec, injected func(context.Context, map[string][]string) error) Injection {
	return Injection{newInjection(Config{CDI: spec, Injected: injected, HostSysRoot: "/sys", Metrics: metrics.New("test")}, zap.NewNop())}
}

// Want sets the devices that the spec should contain from the next Settle on.
func (i Injection) Want(devices ...*inventory.Device) {
	i.want([]offer.Resource{{Name: "test", Devices: devices}})
}

// Settle writes the desired content to the file.
func (i Injection) Settle(ctx context.Context) error { return i.settle(ctx) }

var Completed = completed
