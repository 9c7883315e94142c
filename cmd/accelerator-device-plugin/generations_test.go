package main

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"b-com.com/accelerator-device-plugin/internal/event/eventtest"
	"b-com.com/accelerator-device-plugin/server"
	"b-com.com/accelerator-device-plugin/server/standin"
)

// Allocations, with their nodes, outlive a change of mode.
func TestAllocationsOutliveTheMode(t *testing.T) {
	d := startDaemon(t, nil)
	d.do(d.stop())
	d.do(d.node.Plug(cardB))
	s := newService(d.cfg, nil, nil, eventtest.Log(t), nil)
	ctx, end := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.generation(ctx, "single") }()
	_, err := d.kubelet.AwaitList(t.Context(), testResource, func(l standin.List) bool { return told(l)["5e:00.0"] })
	d.do(err)
	_, err = d.kubelet.Allocate(t.Context(), testResource, "5e:00.0")
	d.do(err)
	end()
	d.do(<-ended)
	over, cancel := context.WithCancel(t.Context())
	cancel()
	d.do(s.generation(over, "af"))
	want := []server.Allocation{{Resource: testResource, ID: "5e:00.0", Nodes: []string{"dfl-port.0", "245:0"}}}
	nobody := func(string, string) bool { return false }
	if diff := cmp.Diff(want, s.given.Compare(time.Now(), nobody)); diff != "" {
		t.Errorf("given out (-want +got):\n%s", diff)
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
	if got := <-next; got != "region" || !errors.Is(context.Cause(ctx), context.Canceled) {
		t.Errorf("next mode %q, ended by %v; want region, and %v", got, context.Cause(ctx), context.Canceled)
	}

	ctx, end = context.WithCancelCause(t.Context())
	end(nil)
	if got := awaitOther(ctx, nil, "af", end); got != "af" {
		t.Errorf("after the end: %q, want the mode as it was", got)
	}
}
