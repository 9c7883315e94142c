package server

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

// A socket exists (bind) for a short time before it accepts connections (listen). So if a socket that is younger than
// listenGrace refuses a connection, connect tries again after dialRetry.
const (
	listenGrace = time.Second
	dialRetry   = 5 * time.Millisecond
)

// connect connects to the kubelet. It also returns the identity of the kubelet.sock that it connected to.
func (e *endpoint) connect(ctx context.Context) (net.Conn, identity, error) {
	ctx, cancel := context.WithTimeout(ctx, e.server.cfg.RegisterTimeout)
	defer cancel()
	began := time.Now()
	for {
		before, err := identify(e.server.directory.kubelet)
		if err != nil {
			return nil, before, noKubelet(err)
		}
		conn, err := (&net.Dialer{}).DialContext(ctx, "unix", e.server.directory.kubelet)
		refused := errors.Is(err, syscall.ECONNREFUSED)
		switch {
		case refused && time.Since(before.modified).Abs() < listenGrace && time.Since(began) < listenGrace:
			select {
			case <-ctx.Done():
			case <-time.After(dialRetry):
			}
			continue
		case err != nil:
			return nil, before, noKubelet(err)
		}
		// If kubelet.sock was replaced while we connected, we don't know which kubelet the connection leads to, so try
		// again.
		if after, err := identify(e.server.directory.kubelet); err == nil && after == before {
			return conn, before, nil
		}
		_ = conn.Close()
	}
}

// noKubelet wraps err in errNoKubelet if err means that no kubelet is running.
func noKubelet(err error) error {
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ECONNREFUSED) {
		return fmt.Errorf("%w: %w", errNoKubelet, err)
	}
	return fmt.Errorf("connecting to the kubelet: %w", err)
}

// register registers a resource's socket with the kubelet at the other end of conn. It waits until the kubelet has
// answered or ctx is done, and then closes conn.
func register(ctx context.Context, conn net.Conn, resource, socket string) error {
	client, err := grpc.NewClient("passthrough:///kubelet",
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(once(conn)),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessage)))
	if err != nil {
		return fmt.Errorf("connection to the kubelet: %w", err)
	}
	defer client.Close()
	_, err = v1beta1.NewRegistrationClient(client).Register(ctx, &v1beta1.RegisterRequest{
		Version:      v1beta1.Version,
		Endpoint:     filepath.Base(socket),
		ResourceName: resource,
		Options:      options(),
	})
	if err != nil {
		return fmt.Errorf("register with the kubelet: %w", err)
	}
	return nil
}

// once returns a dialer that returns conn the first time and then fails, because grpc would otherwise reconnect by
// itself, perhaps to a different kubelet.
func once(conn net.Conn) func(context.Context, string) (net.Conn, error) {
	var used atomic.Bool
	return func(context.Context, string) (net.Conn, error) {
		if used.Swap(true) {
			return nil, errors.New("the kubelet has closed the connection")
		}
		return conn, nil
	}
}
