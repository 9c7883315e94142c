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

// PodBehaviour selects failures of the pod-resources API. The zero PodBehaviour has none. If several are set, the first
// one in this list takes effect.
type PodBehaviour struct {
	Refuse  bool   // connections are accepted, and closed at once
	Stall   bool   // List does not answer while this is set
	Fail    string // List returns this error
	Nothing bool   // List returns no pods, although some hold devices: the kubelet does not know its pods yet
	Garbage bool   // List also returns entries that no kubelet returns; with Nothing, only these
}

// PodResources is a running stand-in for the pod-resources API.
type PodResources struct {
	podresources.UnimplementedPodResourcesListerServer

	ctx    context.Context // ends with the stand-in
	cancel context.CancelFunc
	server *grpc.Server
	tasks  sync.WaitGroup // the server, and the goroutine that stops it

	state     // its mu guards the following fields
	behaviour PodBehaviour
	kubelet   *Kubelet        // with the allocations of the pods; nil: none
	ended     map[string]bool // UIDs of pods that have been released
	holds     []hold          // in the order of Hold
	asked     int             // number of calls of List
}

// StartPodResources serves the API on this socket. It creates the directory if it is missing, and replaces an existing
// socket. No pod holds a device yet. The stand-in runs until Stop or the end of ctx. Stop must always be called.
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
	// The age of the socket shows that the kubelet has run for an hour, because the daemon does not rely on the answers
	// of a kubelet that has just started.
	old := time.Now().Add(-time.Hour)
	if err := os.Chtimes(socket, old, old); err != nil {
		listener.Close()
		return nil, fmt.Errorf("pod-resources socket: %w", err)
	}
	p := &PodResources{server: grpc.NewServer(grpc.WaitForHandlers(true)), state: newState(), ended: map[string]bool{}}
	p.ctx, p.cancel = context.WithCancel(ctx)
	podresources.RegisterPodResourcesListerServer(p.server, p)
	p.tasks.Go(func() {
		// Serve returns only when the server is stopped.
		_ = p.server.Serve(&refusing{listener, p})
	})
	p.tasks.Go(func() {
		<-p.ctx.Done()
		p.server.Stop()
	})
	return p, nil
}

// Stop ends the stand-in: it ends all calls, removes the socket and drops the held devices.
func (p *PodResources) Stop() {
	p.cancel()
	p.tasks.Wait()
}

// Behave changes the behaviour of the API, even for stalled calls.
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
		if p.kubelet != nil && b == (PodBehaviour{}) {
			p.kubelet.forget(p.ended)
		}
		pods = answer(p.holds, b)
		return true
	})
	switch {
	case errors.Is(err, errStopped):
		return nil, status.Error(codes.Unavailable, err.Error())
	case err != nil:
		return nil, status.FromContextError(err).Err()
	case b.Refuse: // the call arrived on a connection that is older than the refusal
		return nil, status.Error(codes.Unavailable, "refused")
	case b.Fail != "":
		return nil, status.Error(codes.Unknown, b.Fail)
	}
	return &podresources.ListPodResourcesResponse{PodResources: pods}, nil
}

// Asked returns the number of calls of List, including those without an answer yet.
func (p *PodResources) Asked() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.asked
}

// AwaitAsked waits until List was called n times. The number of the next call is Asked()+1.
func (p *PodResources) AwaitAsked(ctx context.Context, n int) error {
	if err := p.await(ctx, p.ctx, func() bool { return p.asked >= n }); err != nil {
		return fmt.Errorf("waiting for call %d of List: found %d: %w", n, p.Asked(), err)
	}
	return nil
}

// refusing is a listener that closes accepted connections while Refuse is set.
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
