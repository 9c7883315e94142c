package server

import (
	"context"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"b-com.com/accelerator-device-plugin/inventory"
	"b-com.com/accelerator-device-plugin/server/offer"
	"b-com.com/accelerator-device-plugin/server/prefer"
)

// GetPreferredAllocation chooses the devices that each container is best given, by
// the policy for that. An error fails the pod, so only what cannot be met is one
// (InvalidArgument).
func (p *plugin) GetPreferredAllocation(_ context.Context, r *v1beta1.PreferredAllocationRequest) (*v1beta1.PreferredAllocationResponse, error) {
	newest, _ := p.endpoint.lists.latest()
	answer := &v1beta1.PreferredAllocationResponse{}
	for _, request := range r.GetContainerRequests() {
		ids, err := prefer.Choose(candidates(newest.units), newest.givable(request.GetAvailableDeviceIDs()),
			request.GetMustIncludeDeviceIDs(), int(request.GetAllocationSize()), p.endpoint.cfg.AllocationPolicy)
		if err != nil {
			return nil, status.Error(codes.InvalidArgument, err.Error())
		}
		answer.ContainerResponses = append(answer.ContainerResponses, &v1beta1.ContainerPreferredAllocationResponse{DeviceIDs: ids})
	}
	return answer, nil
}

func candidates(units []offer.Unit) []prefer.Unit {
	all := make([]prefer.Unit, len(units))
	for i, u := range units {
		all[i] = prefer.Unit{ID: u.ID, Card: u.Card, NUMANode: u.NUMANode, Degraded: u.Health == inventory.Degraded}
	}
	return all
}

// givable leaves out what is unhealthy by now: the kubelet may not know that yet.
func (l *list) givable(ids []string) []string {
	var all []string
	for _, id := range ids {
		if u, ok := l.unit(id); !ok || u.Health < inventory.Unhealthy {
			all = append(all, id)
		}
	}
	return all
}
