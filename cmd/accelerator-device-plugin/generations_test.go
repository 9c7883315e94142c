package main

import (
	"context"
	"errors"
	"testing"

	"b-com.com/accelerator-device-plugin/internal/event/eventtest"
	"b-com.com/accelerator-device-plugin/server"
	"b-com.com/accelerator-device-plugin/server/standin"
)

// Of the servers before, those are kept that have given something out lately, and no
// others: a daemon whose mode is changed every day does not grow.
func TestGenerationsForgetServers(t *testing.T) {
	d := startDaemon(t, nil)
	d.do(d.stop())
	d.do(d.node.Plug(cardB))
	s := newService(d.cfg, nil, nil, eventtest.Log(t), nil)
	over, cancel := context.WithCancel(t.Context())
	cancel()
	for range 3 { // each is over before anybody can have been given anything
		d.do(s.generation(over, "single"))
	}
	if n := len(s.earlier); n != 1 {
		t.Errorf("%d servers are kept, want the last one", n)
	}

	ctx, end := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.generation(ctx, "single") }()
	_, err := d.kubelet.AwaitList(t.Context(), testResource, func(l standin.List) bool { return told(l)["5e:00.0"] })
	d.do(err)
	_, err = d.kubelet.Allocate(t.Context(), testResource, "5e:00.0")
	d.do(err)
	end()
	d.do(<-ended)
	for range 3 {
		d.do(s.generation(over, "af"))
	}
	if got := allocated(s.earlier)[testResource]; len(s.earlier) != 2 || len(got) != 1 {
		t.Errorf("%d servers are kept, which gave out %q, want the one that gave out 5e:00.0, and the last one", len(s.earlier), got)
	}
}

// A node's annotations change for many reasons; the mode that is asked for again ends
// nothing.
func TestSameModeEndsNothing(t *testing.T) {
	ctx, end := context.WithCancelCause(t.Context())
	modes, next := make(chan string), make(chan string, 1)
	go func() { next <- awaitOther(ctx, modes, "af", end) }()
	for _, asked := range []string{"af", "af", "region"} {
		select {
		case modes <- asked:
		case <-ctx.Done():
			t.Fatal("af ended mode af")
		}
	}
	if got := <-next; got != "region" || !errors.Is(context.Cause(ctx), server.ErrWithdrawn) {
		t.Errorf("next mode %q, ended by %v; want region, and %v", got, context.Cause(ctx), server.ErrWithdrawn)
	}

	ctx, end = context.WithCancelCause(t.Context())
	end(nil)
	if got := awaitOther(ctx, nil, "af", end); got != "af" {
		t.Errorf("after the end: %q, want the mode as it was", got)
	}
}
