package main

import (
	"context"
	"os"
	"time"

	"b-com.com/accelerator-device-plugin/internal/config"
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

// ours are the devices that are held under a resource of ours, by id.
func (h held) ours(policy offer.Policy) map[string]inventory.Holding {
	all := make(map[string]inventory.Holding)
	for key := range h {
		if policy.Owns(key.Resource) {
			all[key.ID] = inventory.Holding{As: key.Resource, Holders: h.of(key.Resource, key.ID)}
		}
	}
	return all
}

// holdersOf says to the inventory who holds what: those that the kubelet knows,
// and what was given out so recently that it may not know yet.
func holdersOf(cfg config.Config, policy offer.Policy, allocated func() map[string][]string) func(context.Context) (map[string]inventory.Holding, error) {
	return func(ctx context.Context) (map[string]inventory.Holding, error) {
		known, err := askHolders(ctx, cfg.PodResourcesSocket, holdersPatient)
		if err != nil {
			return nil, err
		}
		all := known.ours(policy)
		for resource, ids := range allocated() {
			for _, id := range ids {
				if _, ok := all[id]; !ok {
					all[id] = inventory.Holding{As: resource}
				}
			}
		}
		return all, nil
	}
}
