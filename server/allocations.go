package server

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

// Allocations has the devices that Allocate has given to containers and that the kubelet's
// pod-resources API may not show yet: that API names a holder only when the pod has
// been admitted, some time after Allocate has returned. An allocation counts until the answer
// to a later request names a holder and the answer to a still later request names none. If no
// answer ever names a holder, the allocation counts for the grace time.
//
// An allocation outlives its resource. Allocations is safe for concurrent use. Its size is
// bounded by the number of devices that were ever listed.
type Allocations struct {
	grace time.Duration
	added chan struct{} // holds one element while an allocation is new

	mu     sync.Mutex
	served map[deviceKey]allocation
}

// Allocation is a device that was given to a container under the name of a resource.
type Allocation struct {
	Resource, ID string
	Nodes        []string // names and numbers (MAJOR:MINOR) of the nodes that were given with it
}

// deviceKey is one device of one resource.
type deviceKey struct{ resource, id string }

type allocation struct {
	at    time.Time // of the last request for it
	named time.Time // when the newest answer with a holder was requested; zero: there is none
	nodes []string
}

// NewAllocations returns an empty set. An allocation without a holder in any answer counts for
// the grace time.
func NewAllocations(grace time.Duration) *Allocations {
	return &Allocations{grace: grace, added: make(chan struct{}, 1), served: map[deviceKey]allocation{}}
}

// Added returns a channel that has an element if an allocation was added since the last read of
// the channel.
func (a *Allocations) Added() <-chan struct{} { return a.added }

// add adds allocations of these ids, unless the endpoint refuses the requests by its newest list,
// which is returned. The lock is held for both steps: when a device becomes unhealthy or leaves the
// list, the inventory asks for its holders, and must find this allocation unless it is refused.
func (a *Allocations) add(e *endpoint, requests []*v1beta1.ContainerAllocateRequest, ids []string) (*list, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	newest, _ := e.lists.Load()
	if err := e.check(newest, requests); err != nil {
		return nil, err
	}
	now := time.Now()
	a.expire(now)
	for _, id := range ids {
		d := newest.Device(id)
		a.served[deviceKey{e.resource, id}] = allocation{at: now, nodes: slices.Concat(d.Nodes, d.NodeNumbers)}
	}
	select {
	case a.added <- struct{}{}:
	default: // not read yet
	}
	return newest, nil
}

// remove removes the allocations of these ids.
func (a *Allocations) remove(resource string, ids []string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, id := range ids {
		delete(a.served, deviceKey{resource, id})
	}
}

// Compare compares the allocations with an answer of the pod-resources API and returns
// those that still count, sorted. asked is the time of the request; named reports whether
// the answer names a holder of a device. Answers may be compared in any order.
func (a *Allocations) Compare(asked time.Time, named func(resource, id string) bool) []Allocation {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.expire(time.Now())
	var all []Allocation
	for key, was := range a.served {
		switch is := named(key.resource, key.id); {
		case !asked.After(was.at): // the answer may be older than the allocation
		case is && asked.After(was.named):
			was.named = asked
			a.served[key] = was
		case !is && !was.named.IsZero() && asked.After(was.named):
			delete(a.served, key)
			continue
		}
		all = append(all, Allocation{key.resource, key.id, was.nodes})
	}
	slices.SortFunc(all, func(a, b Allocation) int {
		return cmp.Or(strings.Compare(a.Resource, b.Resource), strings.Compare(a.ID, b.ID))
	})
	return all
}

// expire removes the allocations that had no holder in any answer within the grace time.
func (a *Allocations) expire(now time.Time) {
	maps.DeleteFunc(a.served, func(_ deviceKey, was allocation) bool {
		return was.named.IsZero() && now.Sub(was.at) > a.grace
	})
}
