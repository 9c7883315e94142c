package server

import (
	"cmp"
	"context"
	"slices"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"b-com.com/accelerator-device-plugin/inventory"
)

// GetPreferredAllocation chooses devices: those that must be included, then
// healthy before degraded ones, by id. It is not announced in the options; an
// error fails the pod, so only what cannot be met is one (InvalidArgument).
func (p *plugin) GetPreferredAllocation(_ context.Context, r *v1beta1.PreferredAllocationRequest) (*v1beta1.PreferredAllocationResponse, error) {
	newest, _ := p.endpoint.lists.latest()
	answer := &v1beta1.PreferredAllocationResponse{}
	for _, request := range r.GetContainerRequests() {
		ids, err := prefer(newest, request)
		if err != nil {
			return nil, err
		}
		answer.ContainerResponses = append(answer.ContainerResponses, &v1beta1.ContainerPreferredAllocationResponse{DeviceIDs: ids})
	}
	return answer, nil
}

func prefer(newest *list, r *v1beta1.ContainerPreferredAllocationRequest) ([]string, error) {
	size := int(r.GetAllocationSize())
	chosen := make([]string, 0, len(r.GetMustIncludeDeviceIDs()))
	taken := map[string]bool{}
	take := func(id string) {
		if !taken[id] {
			taken[id] = true
			chosen = append(chosen, id)
		}
	}
	for _, id := range r.GetMustIncludeDeviceIDs() {
		take(id)
	}
	if len(chosen) > size {
		return nil, status.Errorf(codes.InvalidArgument, "%d devices must be included in an allocation of %d", len(chosen), size)
	}
	available := slices.SortedFunc(slices.Values(r.GetAvailableDeviceIDs()), func(a, b string) int {
		return cmp.Or(cmp.Compare(newest.rank(a), newest.rank(b)), cmp.Compare(a, b))
	})
	for _, id := range available {
		if len(chosen) == size {
			break
		}
		take(id)
	}
	return chosen, nil
}

// rank orders ids by how gladly they are given: by health, and what is not
// listed last.
func (l *list) rank(id string) inventory.Health {
	u, ok := l.unit(id)
	if !ok {
		return inventory.Unhealthy + 1
	}
	return u.Health
}
