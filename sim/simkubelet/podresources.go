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

// PodBehaviour determines how the pod-resources API fails. With the zero PodBehaviour, it doesn't fail. If several
// fields are set, the first one takes effect.
type PodBehaviour struct {
	Refuse  bool   // connections are accepted and closed immediately
	Stall   bool   // List doesn't respond while this is set
	Fail    string // List returns this error
	Nothing bool   // List returns no pods, not even those that hold devices, as if the kubelet didn't know its pods yet
	Garbage bool   // List also returns entries that no kubelet would return; with Nothing, only those
}

// PodResources is a running stand-in for the pod-resources API.
type PodResources struct {
	podresources.UnimplementedPodResourcesListerServer

	ctx    context.Context // done when the stand-in stops
	cancel context.CancelFunc
	server *grpc.Server
	tasks  sync.WaitGroup // the server and the goroutine that stops it

	state     // its mu guards the following fields
	behaviour PodBehaviour
	kubelet   *Kubelet        // the kubelet that knows the pods' allocations; may be nil
	ended     map[string]bool // UIDs of pods that have been released
	holds     []hold          // in the order in which they were added
	asked     int             // how often List has been called
}

// StartPodResources serves the pod-resources API on a Unix socket. It creates the socket's directory if necessary, and
// replaces an existing socket. At first, no pod holds any devices. The stand-in runs until Stop is called or ctx is
// done. Stop must always be called.
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
	// Make it look as if the kubelet has been running for an hour, because the daemon doesn't trust a kubelet's
	// responses right after it has started.
	old := time.Now().Add(-time.Hour)
	if err := os.Chtimes(socket, old, old); err != nil {
		listener.Close()
		return nil, fmt.Errorf("pod-resources socket: %w", err)
	}
	p := &PodResources{server: grpc.NewServer(grpc.WaitForHandlers(true)), state: newState(), ended: map[string]bool{}}
	p.ctx, p.cancel = context.WithCancel(ctx)
	podresources.RegisterPodResourcesListerServer(p.server, p)
	p.tasks.Go(func() {
		// Ignore the error, because Serve doesn't return until the server has been stopped.
		_ = p.server.Serve(&refusing{listener, p})
	})
	p.tasks.Go(func() {
		<-p.ctx.Done()
		p.server.Stop()
	})
	return p, nil
}

// Stop stops the stand-in: it ends all calls, removes the socket and forgets the held devices.
func (p *PodResources) Stop() {
	p.cancel()
	p.tasks.Wait()
}

// Behave changes the API's behaviour, even for calls that are currently stalled.
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
	case b.Refuse: // the call arrived on a connection accepted before Refuse was set
		return nil, status.Error(codes.Unavailable, "refused")
	case b.Fail != "":
		return nil, status.Error(codes.Unknown, b.Fail)
	}
	return &podresources.ListPodResourcesResponse{PodResources: pods}, nil
}

// Asked returns how often List has been called, including calls in progress.
func (p *PodResources) Asked() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.asked
}

// AwaitAsked waits until List has been called n times. To wait for the next call, use Asked()+1.
func (p *PodResources) AwaitAsked(ctx context.Context, n int) error {
	if err := p.await(ctx, p.ctx, func() bool { return p.asked >= n }); err != nil {
		return fmt.Errorf("waiting for call %d of List: found %d: %w", n, p.Asked(), err)
	}
	return nil
}

// refusing is a listener that closes the connections it accepts while [PodBehaviour.Refuse] is set.
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
