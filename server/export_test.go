package server

import (
	"context"
	"time"

	"go.uber.org/zap"
	"google.golang.org/grpc/grpclog"
	"k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"b-com.com/accelerator-device-plugin/internal/pulse"
	"b-com.com/accelerator-device-plugin/inventory"
	"b-com.com/accelerator-device-plugin/server/cdi"
	"b-com.com/accelerator-device-plugin/server/offer"
)

// NewLibraryLog returns the logger that the grpc library is given.
func NewLibraryLog(log *zap.Logger) grpclog.LoggerV2 { return newLibraryLog(log) }

// Offer returns an Allocate that answers for a resource of this server's with
// these devices, without the kubelet and its sockets, which a bubble of fake time
// cannot have. The resource may be offered anew any time, as after its retirement.
func (s *Server) Offer(ctx context.Context, resource string, devices ...*inventory.Device) func(ids ...string) error {
	e := newEndpoint(resource, s.cfg, s.devices, s.directory, s.reregister, s.injection, s.log)
	s.injection.want([]offer.Resource{{Name: resource, Devices: devices}})
	e.offer(inventory.Snapshot{}, devices)
	return func(ids ...string) error {
		_, err := (&plugin{endpoint: e}).Allocate(ctx, &v1beta1.AllocateRequest{
			ContainerRequests: []*v1beta1.ContainerAllocateRequest{{DevicesIds: ids}},
		})
		return err
	}
}

// Remembered counts what is remembered of Allocate's answers.
func (s *Server) Remembered() int {
	s.cfg.Allocations.mu.Lock()
	defer s.cfg.Allocations.mu.Unlock()
	return len(s.cfg.Allocations.served)
}

// Allocated lists the ids that count as given out, by resource, without an answer of the
// kubelet.
func (s *Server) Allocated() map[string][]string {
	all := map[string][]string{}
	for _, a := range s.cfg.Allocations.Compare(time.Time{}, func(string, string) bool { return false }) {
		all[a.Resource] = append(all[a.Resource], a.ID)
	}
	return all
}

// LosePatience makes the server call stuck what takes longer than d; before Run only.
func (s *Server) LosePatience(d time.Duration) { s.pulse = pulse.New(d) }

// Injection keeps a CDI spec as a server does, without one.
type Injection struct{ *injection }

// NewInjection returns one for this spec, which wants nothing yet.
func NewInjection(spec *cdi.Spec) Injection { return Injection{newInjection(spec, nil, zap.NewNop())} }

// Want makes the spec one of these devices from the next Settle on.
func (i Injection) Want(devices ...*inventory.Device) {
	i.want([]offer.Resource{{Name: "test", Devices: devices}})
}

// Settle makes the file say what is wanted.
func (i Injection) Settle() error { return i.settle() }
