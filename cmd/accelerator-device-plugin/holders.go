package main

import (
	"context"
	"os"
	"time"

	"b-com.com/accelerator-device-plugin/server/podresources"
)

// How long the kubelet may take to say who holds what: for a command that was
// called to hear it, and where something else waits for the answer.
const (
	holdersPatient = 2 * time.Second
	holdersSoon    = 500 * time.Millisecond
)

// askHolders asks who holds what. Without an answer it returns a nil func.
func askHolders(ctx context.Context, socket string, within time.Duration) (func(resource, id string) []string, error) {
	if _, err := os.Stat(socket); err != nil {
		return nil, err // grpc would not say that it does not exist
	}
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	held, err := podresources.List(ctx, socket)
	if err != nil {
		return nil, err
	}
	return func(resource, id string) []string {
		var names []string
		for _, h := range held[podresources.Key{Resource: resource, ID: id}] {
			names = append(names, h.String())
		}
		return names
	}, nil
}
