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

// Behaviour selects ways in which the kubelet fails. The zero Behaviour has none.
type Behaviour struct {
	Refuse       string // Register returns this error
	HangRegister bool   // Register never answers
	Vanish       bool   // the kubelet stops during Register
	NoStream     bool   // Register answers, but ListAndWatch is never called
	NoRead       bool   // ListAndWatch is called, but its stream is never read
	HangUp       bool   // Register answers, and the kubelet then closes the connection to the plugin
	// OnePlugin makes the kubelet behave like kubelets up to 1.36. They call only the resource's plugin that registered
	// last. When any of the resource's streams ends, they close the connection to that plugin. They read the other
	// plugins' lists, but don't call these plugins or close their streams.
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
	tasks    sync.WaitGroup // the server, plus one for each plugin

	state         // its mu guards the following fields
	behaviour     Behaviour
	registrations map[string]int
	plugins       map[string][]*plugin // by resource, with the newest registration last
	lists         map[string]List      // the newest list, by resource
	open          map[string]List      // the newest lists of resources that have an open stream
	follower      func(map[string]List)
	entries       []podDevicesEntry // the checkpoint's entries
}

// Start starts a kubelet in the directory, creating it if needed. It first deletes all sockets in the directory. The
// kubelet runs until Stop or Kill is called or ctx is done. Stop or Kill must always be called.
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
		// Serve returns only once the server has been stopped.
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

// Kill stops the kubelet the way SIGKILL does: its socket file stays.
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
