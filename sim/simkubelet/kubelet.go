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

// Behaviour determines how the kubelet fails. With the zero Behaviour, it doesn't fail.
type Behaviour struct {
	Refuse       string // Register returns this error
	HangRegister bool   // Register never responds
	Vanish       bool   // the kubelet stops during Register
	NoStream     bool   // Register responds, but ListAndWatch is never called
	NoRead       bool   // ListAndWatch is called, but its stream is never read
	HangUp       bool   // Register responds, and then the kubelet closes the connection to the plugin
	// OnePlugin makes the kubelet behave like kubelets up to 1.36. Such a kubelet reads the lists of all plugins that
	// have registered a resource, but calls only the plugin that registered last. When any of the resource's streams
	// ends, the kubelet closes the connection to that last plugin, but not the other plugins' streams.
	OnePlugin bool
}

// Kubelet is a running stand-in.
type Kubelet struct {
	v1beta1.UnimplementedRegistrationServer

	dir      string
	ctx      context.Context // done when the kubelet stops
	cancel   context.CancelFunc
	listener *net.UnixListener
	server   *grpc.Server
	tasks    sync.WaitGroup // the server and one per plugin

	state         // its mu guards the following fields
	behaviour     Behaviour
	registrations map[string]int
	plugins       map[string][]*plugin // by resource, in order of registration
	lists         map[string]List      // each resource's latest list
	open          map[string]List      // the latest list of each resource with an open stream
	follower      func(map[string]List)
	entries       []podDevicesEntry // the checkpoint's entries
}

// Start starts a kubelet in dir, which it creates if necessary. It first deletes all sockets in dir. The kubelet runs
// until Stop or Kill is called or ctx is done. Stop or Kill must always be called.
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
		// Ignore the error, because Serve doesn't return until the server has been stopped.
		_ = k.server.Serve(listener)
	})
	return k, nil
}

// removeSockets deletes all sockets in the directory, as a kubelet does at startup.
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

// Stop stops the kubelet, removes its socket and closes its connections.
func (k *Kubelet) Stop() {
	k.server.Stop()
	k.cancel() // ends the streams and closes the connections
	k.tasks.Wait()
}

// Kill stops the kubelet as if by SIGKILL: its socket file stays.
func (k *Kubelet) Kill() {
	k.listener.SetUnlinkOnClose(false)
	k.Stop()
}

// Behave changes the kubelet's behaviour.
func (k *Kubelet) Behave(b Behaviour) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.behaviour = b
}
