package main

import (
	"context"
	"os"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"b-com.com/accelerator-device-plugin/inventory"
	"b-com.com/accelerator-device-plugin/server/offer"
	"b-com.com/accelerator-device-plugin/server/podresources"
)

// How long the kubelet may take to say who holds what: for a command that was
// called to hear it, and where something else waits for the answer.
const (
	holdersPatient = 2 * time.Second
	holdersSoon    = 500 * time.Millisecond
)

// held is who holds what. nil: that is not known.
type held map[podresources.Key][]podresources.Holder

// askHolders asks who holds what.
func askHolders(ctx context.Context, socket string, within time.Duration) (held, error) {
	if _, err := os.Stat(socket); err != nil {
		return nil, err // grpc would not say that it does not exist
	}
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	return podresources.List(ctx, socket)
}

// lookup returns what lists the holders of one device, nil where they are not known.
func (h held) lookup() func(resource, id string) []string {
	if h == nil {
		return nil
	}
	return h.of
}

func (h held) of(resource, id string) []string {
	var names []string
	for _, holder := range h[podresources.Key{Resource: resource, ID: id}] {
		names = append(names, holder.String())
	}
	return names
}

// ours are the devices that are held under a resource of ours, by id, each with its
// holdings in the order of their names.
func (h held) ours(owns func(resource, id string) bool) map[string][]inventory.Holding {
	all := make(map[string][]inventory.Holding)
	for key := range h {
		if owns(key.Resource, key.ID) {
			all[key.ID] = append(all[key.ID], inventory.Holding{As: key.Resource, Holders: h.of(key.Resource, key.ID)})
		}
	}
	for _, holdings := range all {
		slices.SortFunc(holdings, func(a, b inventory.Holding) int { return strings.Compare(a.As, b.As) })
	}
	return all
}

// holdersOf says to the inventory who holds what: those that the kubelet knows,
// and what was given out so recently that it may not know yet.
func holdersOf(socket string, owns func(resource, id string) bool, allocated func() map[string][]string) func(context.Context) (map[string][]inventory.Holding, error) {
	return func(ctx context.Context) (map[string][]inventory.Holding, error) {
		known, err := askHolders(ctx, socket, holdersPatient)
		if err != nil {
			return nil, err
		}
		all := known.ours(owns)
		for resource, ids := range allocated() {
			for _, id := range ids {
				if !slices.ContainsFunc(all[id], func(h inventory.Holding) bool { return h.As == resource }) {
					all[id] = append(all[id], inventory.Holding{As: resource})
				}
			}
		}
		return all, nil
	}
}

// owner remembers every policy that the daemon has had: what was given out under
// an earlier one is ours still.
type owner struct {
	mu       sync.Mutex
	policies []offer.Policy
}

func (o *owner) follow(p offer.Policy) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.policies = append(slices.DeleteFunc(o.policies, func(old offer.Policy) bool { return reflect.DeepEqual(old, p) }), p)
}

func (o *owner) owns(resource, id string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.ContainsFunc(o.policies, func(p offer.Policy) bool { return p.Owns(resource, id) })
}
