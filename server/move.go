package server

import (
	"context"
	"time"

	"b-com.com/accelerator-device-plugin/inventory"
	"b-com.com/accelerator-device-plugin/server/offer"
)

// movePatience is how long a device that moves waits for the kubelet to be told
// that its old resource has it no longer. Other news waits with it.
const movePatience = 100 * time.Millisecond

// takeAway takes devices that move to another resource off the lists that they
// are on, and waits until the kubelet has been told, but not for long: nothing is
// to be on two lists at once. The lists that it leaves are those of the snapshot
// but for what comes from elsewhere.
func (s *Server) takeAway(ctx context.Context, snapshot inventory.Snapshot, resources []offer.Resource) {
	if len(s.endpoints) == 1 && len(resources) == 1 && s.endpoints[resources[0].Name] != nil {
		return // there is nowhere to move to
	}
	on := map[string]*endpoint{} // by the id of a unit
	for _, e := range s.endpoints {
		l, _ := e.lists.latest()
		for _, u := range l.units {
			on[u.ID] = e
		}
	}
	moving := map[string]bool{}
	left := map[*endpoint]bool{}
	for _, r := range resources {
		for _, u := range r.Units {
			if e := on[u.ID]; e != nil && e.resource != r.Name {
				moving[u.ID], left[e] = true, true
			}
		}
	}
	if len(moving) == 0 {
		return
	}
	units := map[string][]offer.Unit{}
	for _, r := range resources {
		for _, u := range r.Units {
			if !moving[u.ID] {
				units[r.Name] = append(units[r.Name], u)
			}
		}
	}
	for e := range left {
		e.offer(snapshot, units[e.resource])
	}
	ctx, cancel := context.WithTimeout(ctx, movePatience)
	defer cancel()
	for e := range left {
		e.awaitTold(ctx)
	}
}

// withdraw empties all lists and waits until the kubelet has been told, but not for
// long.
func (s *Server) withdraw(ctx context.Context) {
	for _, e := range s.endpoints {
		e.offer(inventory.Snapshot{}, []offer.Unit{})
	}
	ctx, cancel := context.WithTimeout(ctx, movePatience)
	defer cancel()
	for _, e := range s.endpoints {
		e.awaitTold(ctx)
	}
}

// awaitTold blocks until some stream is past the newest list, there is none, or
// ctx ends. It is the conductor's: nobody else makes a newer list meanwhile.
func (e *endpoint) awaitTold(ctx context.Context) {
	newest, _ := e.lists.latest()
	for {
		session := e.current.Load()
		if session == nil {
			return
		}
		count, ended := session.streams.latest()
		told, more := e.told.latest()
		if count.open == 0 || told == newest {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-ended:
		case <-more:
		}
	}
}
