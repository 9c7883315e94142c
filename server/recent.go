package server

import (
	"maps"
	"slices"
	"sync"
	"time"
)

// recent remembers what Allocate served within the last grace: the kubelet's
// pod-resources API tells of an allocation only once the pod has been admitted,
// some time after Allocate has answered. It belongs to the server, not to an
// endpoint: a resource may be retired sooner. It holds no more than can be listed
// within that time, because only what is listed is served, and what the calls under
// way ask for.
type recent struct {
	grace time.Duration

	mu     sync.Mutex
	served map[unitKey]time.Time // when it was asked for last
}

// unitKey is one unit of one resource.
type unitKey struct{ resource, id string }

// add takes note that these ids are about to be served. The func that it returns
// takes that back, where they are refused: what was known of them before stands.
func (r *recent) add(resource string, ids []string) (withdraw func()) {
	now := time.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.forget(now)
	if r.served == nil {
		r.served = map[unitKey]time.Time{}
	}
	before := make(map[unitKey]time.Time, len(ids))
	for _, id := range ids {
		key := unitKey{resource, id}
		if _, twice := before[key]; !twice {
			before[key] = r.served[key]
		}
		r.served[key] = now
	}
	return func() { r.withdraw(before, now) }
}

// withdraw takes an add back, but not one that has come after it.
func (r *recent) withdraw(before map[unitKey]time.Time, added time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for key, was := range before {
		switch {
		case !r.served[key].Equal(added):
		case was.IsZero():
			delete(r.served, key)
		default:
			r.served[key] = was
		}
	}
}

// all lists the ids by resource, each list sorted. It shares nothing with r.
func (r *recent) all() map[string][]string {
	now := time.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.forget(now)
	all := map[string][]string{}
	for key := range r.served {
		all[key.resource] = append(all[key.resource], key.id)
	}
	for _, ids := range all {
		slices.Sort(ids)
	}
	return all
}

// forget drops what is older than grace.
func (r *recent) forget(now time.Time) {
	maps.DeleteFunc(r.served, func(_ unitKey, at time.Time) bool { return now.Sub(at) > r.grace })
}

// Allocated returns the ids that Allocate has given to somebody within the last
// [Config.AllocationGrace], or is about to, by resource, each list sorted; a resource
// without any is not in it. An id is in it before it is decided whether it may be
// given, whether or not its device or its resource is still there. It may be called
// at any time, by anyone.
func (s *Server) Allocated() map[string][]string { return s.recent.all() }
