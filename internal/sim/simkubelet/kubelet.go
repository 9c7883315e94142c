package simkubelet

import (
	"context"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"sync"

	"google.golang.org/grpc"
	"k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

// Socket is the name of the kubelet's socket in its directory.
const Socket = "kubelet.sock"

// Behaviour is how the kubelet misbehaves. The zero Behaviour is a good one.
type Behaviour struct {
	Refuse       string // Register answers with this error
	HangRegister bool   // Register never answers
	Vanish       bool   // the kubelet dies in the middle of Register
	NoStream     bool   // Register answers, but ListAndWatch is never called
	NoRead       bool   // ListAndWatch is called, but its stream is never read
	HangUp       bool   // Register answers, then the connection is closed
	// OnePlugin is how kubelets up to 1.36 are: they know one plugin of a resource,
	// the one that registered last, and the end of whichever stream hangs up on that
	// one. The others are listened to, never asked, and not told.
	OnePlugin bool
}

// Kubelet is a running stand-in.
type Kubelet struct {
	v1beta1.UnimplementedRegistrationServer

	dir      string
	ctx      context.Context // ends with the kubelet
	cancel   context.CancelFunc
	listener *net.UnixListener
	server   *grpc.Server
	tasks    sync.WaitGroup // the server, and one for each plugin

	state         // guards what follows
	behaviour     Behaviour
	registrations map[string]int
	plugins       map[string][]*plugin // by resource: the newest registration last
	lists         map[string]List      // by resource: the newest list
	open          map[string]List      // the same, of those whose stream is open
	follower      func(map[string]List)
	entries       []podDevicesEntry // of the checkpoint
}

// Start starts a kubelet in the directory, which it makes if need be. All
// sockets in it are deleted first. The kubelet runs until Stop, Kill or the end
// of ctx; Stop or Kill must be called in any case.
func Start(ctx context.Context, dir string, b Behaviour) (*Kubelet, error) {
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return nil, fmt.Errorf("kubelet directory: %w", err)
	}
	if err := removeSockets(dir); err != nil {
		return nil, err
	}
	entries, err := readCheckpoint(dir)
	if err != nil {
		return nil, err
	}
	address := &net.UnixAddr{Name: filepath.Join(dir, Socket), Net: "unix"}
	listener, err := net.ListenUnix("unix", address)
	if err != nil {
		return nil, fmt.Errorf("kubelet socket: %w", err)
	}
	k := &Kubelet{
		dir:           dir,
		listener:      listener,
		server:        grpc.NewServer(grpc.WaitForHandlers(true)),
		state:         newState(),
		behaviour:     b,
		registrations: map[string]int{},
		plugins:       map[string][]*plugin{},
		lists:         map[string]List{},
		open:          map[string]List{},
		entries:       entries,
	}
	k.ctx, k.cancel = context.WithCancel(ctx)
	v1beta1.RegisterRegistrationServer(k.server, k)
	k.tasks.Go(func() {
		// It returns when the server is stopped, and for no other reason.
		_ = k.server.Serve(listener)
	})
	return k, nil
}

// removeSockets deletes every socket in the directory, as a kubelet does when it
// starts.
func removeSockets(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("kubelet directory: %w", err)
	}
	for _, entry := range entries {
		if entry.Type()&fs.ModeSocket == 0 {
			continue
		}
		if err := os.Remove(filepath.Join(dir, entry.Name())); err != nil && !os.IsNotExist(err) {
			return fmt.Errorf("kubelet directory: %w", err)
		}
	}
	return nil
}

// Stop ends the kubelet in good order: its socket and its connections go.
func (k *Kubelet) Stop() {
	k.server.Stop()
	k.cancel() // ends the streams, and hangs up
	k.tasks.Wait()
}

// Kill ends the kubelet as SIGKILL does: its socket file stays behind.
func (k *Kubelet) Kill() {
	k.listener.SetUnlinkOnClose(false)
	k.Stop()
}

// Behave makes the kubelet behave in this way from now on.
func (k *Kubelet) Behave(b Behaviour) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.behaviour = b
}
