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

// Offer returns an Allocate for a resource of this server with these devices. It needs no kubelet
// and no sockets, which cannot be used in a bubble of fake time. It may be called again for the
// same resource, as after its retirement.
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

// Allocated returns the ids that were given out, by resource, sorted.
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

// SetStuckAfter sets the time after which the server counts as stuck. It must be called before Run.
func (s *Server) SetStuckAfter(d time.Duration) { s.pulse = pulse.New(d) }

// SetMoveTimeout sets how long a device that moves waits for its removal from the old list. It must be called before Run.
func (s *Server) SetMoveTimeout(d time.Duration) { s.move = d }

// SetDrain sets how long calls in flight may take when a session ends. It must be called before Run.
func (s *Server) SetDrain(d time.Duration) { s.drain = d }

// Injection is the injection of a server, without the server.
type Injection struct{ *injection }

// NewInjection returns an Injection for this spec, without content. injected is [Config.Injected].
func NewInjection(spec *cdi.Spec, injected func(context.Context, map[string][]string) error) Injection {
	return Injection{newInjection(Config{CDI: spec, Injected: injected, HostSysRoot: "/sys", Metrics: metrics.New("test")}, zap.NewNop())}
}

// Want sets the content of the spec to these devices from the next Settle on.
func (i Injection) Want(devices ...*inventory.Device) {
	i.want([]offer.Resource{{Name: "test", Devices: devices}})
}

// Settle writes the wanted content to the file.
func (i Injection) Settle(ctx context.Context) error { return i.settle(ctx) }

// Completed is completed.
var Completed = completed
