package simkubelet

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	podresources "k8s.io/kubelet/pkg/apis/podresources/v1"
)

// PodBehaviour is how the pod-resources API misbehaves. The zero PodBehaviour is
// a good one. Of several, the first of this list shows.
type PodBehaviour struct {
	Refuse  bool   // connections are accepted and closed at once
	Stall   bool   // List does not answer while this lasts
	Fail    string // List answers with this error
	Nothing bool   // a lie: nobody holds anything
	Garbage bool   // beside the truth, List says what no kubelet would; with Nothing, that alone
}

// PodResources is a running stand-in for the pod-resources API.
type PodResources struct {
	podresources.UnimplementedPodResourcesListerServer

	ctx    context.Context // ends with the stand-in
	cancel context.CancelFunc
	server *grpc.Server
	tasks  sync.WaitGroup // the server, and who stops it

	state     // guards what follows
	behaviour PodBehaviour
	holds     []hold // in the order of Hold
	asked     int
}

// StartPodResources serves the API on this socket, in a directory that it makes
// if need be, and in the place of a socket that somebody left there. Nobody holds
// anything yet. It runs until Stop or the end of ctx; Stop must be called in any
// case.
func StartPodResources(ctx context.Context, socket string) (*PodResources, error) {
	if err := os.MkdirAll(filepath.Dir(socket), 0o750); err != nil {
		return nil, fmt.Errorf("pod-resources directory: %w", err)
	}
	if info, err := os.Lstat(socket); err == nil && info.Mode()&fs.ModeSocket != 0 {
		if err := os.Remove(socket); err != nil {
			return nil, fmt.Errorf("pod-resources socket: %w", err)
		}
	}
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: socket, Net: "unix"})
	if err != nil {
		return nil, fmt.Errorf("pod-resources socket: %w", err)
	}
	// The kubelet has run for an hour: of one that has just started, the answers are in doubt.
	old := time.Now().Add(-time.Hour)
	if err := os.Chtimes(socket, old, old); err != nil {
		listener.Close()
		return nil, fmt.Errorf("pod-resources socket: %w", err)
	}
	p := &PodResources{server: grpc.NewServer(grpc.WaitForHandlers(true)), state: newState()}
	p.ctx, p.cancel = context.WithCancel(ctx)
	podresources.RegisterPodResourcesListerServer(p.server, p)
	p.tasks.Go(func() {
		// It returns when the server is stopped, and for no other reason.
		_ = p.server.Serve(&refusing{listener, p})
	})
	p.tasks.Go(func() {
		<-p.ctx.Done()
		p.server.Stop()
	})
	return p, nil
}

// Stop ends the stand-in: calls are cut off, the socket goes. What is held is
// forgotten.
func (p *PodResources) Stop() {
	p.cancel()
	p.tasks.Wait()
}

// Behave makes the API behave in this way from now on. Calls that stall go by it,
// too.
func (p *PodResources) Behave(b PodBehaviour) {
	p.change(func() { p.behaviour = b })
}

// List implements the PodResourcesLister service.
func (p *PodResources) List(ctx context.Context, _ *podresources.ListPodResourcesRequest) (*podresources.ListPodResourcesResponse, error) {
	p.change(func() { p.asked++ })
	var b PodBehaviour
	var pods []*podresources.PodResources
	err := p.await(ctx, p.ctx, func() bool {
		if b = p.behaviour; b.Stall && !b.Refuse {
			return false
		}
		pods = answer(p.holds, b)
		return true
	})
	switch {
	case errors.Is(err, errStopped):
		return nil, status.Error(codes.Unavailable, err.Error())
	case err != nil:
		return nil, status.FromContextError(err).Err()
	case b.Refuse: // over a connection that is older than the refusal
		return nil, status.Error(codes.Unavailable, "refused")
	case b.Fail != "":
		return nil, status.Error(codes.Unknown, b.Fail)
	}
	return &podresources.ListPodResourcesResponse{PodResources: pods}, nil
}

// Asked counts the calls of List, from the moment that they arrive.
func (p *PodResources) Asked() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.asked
}

// AwaitAsked waits until List was called n times. The next call is Asked()+1.
func (p *PodResources) AwaitAsked(ctx context.Context, n int) error {
	if err := p.await(ctx, p.ctx, func() bool { return p.asked >= n }); err != nil {
		return fmt.Errorf("waiting for call %d of List (there were %d): %w", n, p.Asked(), err)
	}
	return nil
}

// refusing is the listener: while the API refuses, it closes what it accepts.
type refusing struct {
	*net.UnixListener
	p *PodResources
}

func (l *refusing) Accept() (net.Conn, error) {
	for {
		conn, err := l.UnixListener.Accept()
		if err != nil || !l.p.refuses() {
			return conn, err
		}
		_ = conn.Close()
	}
}

func (p *PodResources) refuses() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.behaviour.Refuse
}
