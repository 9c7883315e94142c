package server

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"b-com.com/accelerator-device-plugin/internal/latest"
	"b-com.com/accelerator-device-plugin/internal/logevent"
)

// Reasons why a session ends. They determine when [endpoint.run] begins the next one.
var (
	errReregister      = errors.New("re-registration requested")
	errKubeletReplaced = errors.New("the kubelet was restarted")
	errSocketLost      = errors.New("the plugin's socket was removed")
	errPeerGone        = errors.New("a daemon that registered later has ended")
	errStreamsEnded    = errors.New("the kubelet has ended the stream")
	errConnClosed      = errors.New("the kubelet has closed the connection without opening a stream")
	errNoStream        = errors.New("the kubelet has opened no stream")
	errNoKubelet       = errors.New("there is no kubelet")
)

const (
	// maxMessage is the maximum size of a message from the kubelet, in bytes. The kubelet has the same limit.
	maxMessage = 4 << 20
	// maxStreams is the maximum number of open calls per connection.
	maxStreams = 64
	// drainTimeout is how long calls in progress may take when a session ends. They get this time because a pod whose
	// Allocate call is interrupted fails for good.
	drainTimeout = 250 * time.Millisecond
)

// session is one registration: a socket, the server that listens on it, and that server's streams.
type session struct {
	endpoint   *endpoint
	path       string    // the socket's path
	made       time.Time // when the socket was created
	listener   *listener
	server     *grpc.Server
	served     chan error    // receives Serve's result
	ending     chan struct{} // closed when the streams must end
	streams    *latest.Value[streams]
	registered atomic.Bool
}

// streams counts a session's ListAndWatch streams.
type streams struct {
	opened int // since the session began
	open   int // now
}

// runSession registers once and serves until the registration ends. It returns the identity of kubelet.sock and the
// reason why the registration ended; this error is never nil. By the time runSession returns, the whole session has
// ended, unless the reason is errPeerGone. In that case, the session is superseded, and keeps serving until a later
// session has its stream or the kubelet is gone.
func (e *endpoint) runSession(ctx context.Context, reregister <-chan struct{}) (identity, error) {
	conn, kubelet, err := e.connect(ctx)
	if errors.Is(err, errNoKubelet) {
		e.replace(nil)
	}
	if err != nil {
		return kubelet, err
	}
	defer conn.Close()
	e.noteKubelet(kubelet)
	if e.superseded != nil && e.superseded.lost(kubelet) != nil {
		e.replace(nil)
	}
	s, err := e.serve()
	if err != nil {
		return kubelet, err
	}
	defer func() {
		if e.superseded != s {
			s.end()
		}
	}()
	e.current.Store(s)
	defer e.current.Store(nil)

	registering, cancel := context.WithTimeout(ctx, e.server.cfg.RegisterTimeout)
	answer := make(chan error, 1)
	done := make(chan struct{})
	go func() {
		defer close(done)
		answer <- register(registering, conn, e.resource, s.path)
	}()
	defer func() {
		cancel()
		<-done
	}()
	err = s.await(ctx, kubelet, reregister, answer, func() { e.replace(nil) })
	switch {
	case errors.Is(err, errPeerGone):
		e.replace(s)
	case errors.Is(err, errKubeletReplaced), errors.Is(err, errSocketLost):
		e.replace(nil)
	}
	abandoned := errors.Is(err, errReregister) || errors.Is(err, errKubeletReplaced) || errors.Is(err, errSocketLost)
	if abandoned && !s.registered.Load() {
		e.server.cfg.Metrics.RegistrationAbandoned(e.resource)
		e.log.Info("registration abandoned", logevent.RegisterAbandoned, logevent.Reason(err.Error()))
	}
	return kubelet, err
}

// replace ends the superseded session, if there is one, and makes s the superseded session. s may be nil.
func (e *endpoint) replace(s *session) {
	if e.superseded != nil {
		e.ends.Go(e.superseded.end)
	}
	e.superseded = s
}

// serve starts a session that serves on a new socket.
func (e *endpoint) serve() (*session, error) {
	path := e.server.directory.peers.NewSocketPath()
	made := time.Now()
	l, err := listen(path)
	if err != nil {
		return nil, fmt.Errorf("socket for the kubelet: %w", err)
	}
	s := &session{
		endpoint: e,
		path:     path,
		made:     made,
		listener: l,
		server: grpc.NewServer(
			grpc.MaxRecvMsgSize(maxMessage),
			grpc.MaxConcurrentStreams(maxStreams),
			grpc.WaitForHandlers(true)),
		served:  make(chan error, 1),
		ending:  make(chan struct{}),
		streams: latest.New(streams{}),
	}
	v1beta1.RegisterDevicePluginServer(s.server, &plugin{endpoint: e, session: s})
	go func() { s.served <- s.server.Serve(l) }()
	e.log.Debug("resource served", logevent.ResourceServed, logevent.Socket(path))
	return s, nil
}

// await waits until there is a reason to end the session, and returns it. One such reason is that the kubelet answers
// the registration but doesn't open a stream within [Config.StreamTimeout]. When a stream is open, await calls
// onStream, possibly several times.
func (s *session) await(
	ctx context.Context, kubelet identity, reregister <-chan struct{}, answer <-chan error, onStream func(),
) error {
	e := s.endpoint
	timeout := time.NewTimer(e.server.cfg.StreamTimeout)
	defer timeout.Stop()
	for {
		changed, left := e.server.directory.changed.Next(), s.listener.left.Next()
		count, stale := s.streams.Load()
		gone, more := e.server.directory.peers.Gone(s.made)
		if err := s.lost(kubelet); err != nil {
			return err
		}
		if count.open > 0 {
			onStream()
		}
		if err := s.dropped(count, answer == nil, gone); err != nil {
			return err
		}
		select {
		case <-changed:
		case <-stale:
		case <-left:
		case <-more:
		case <-ctx.Done():
			return ctx.Err()
		case <-reregister:
			return errReregister
		case err := <-s.served:
			s.served <- err // keep it for end
			return fmt.Errorf("serving %s: %w", s.path, err)
		case <-timeout.C:
			if answer == nil && count.opened == 0 {
				return fmt.Errorf("%w within %v", errNoStream, e.server.cfg.StreamTimeout)
			}
		case err := <-answer:
			if err != nil {
				return err
			}
			answer = nil
			s.registered.Store(true)
			timeout.Reset(e.server.cfg.StreamTimeout)
			e.server.cfg.Metrics.Registered(e.resource)
			e.log.Info("resource registered", logevent.ResourceRegistered, logevent.Socket(s.path))
		}
	}
}

// dropped returns an error if the kubelet has ended the session. gone means that another daemon registered later and
// has ended since.
func (s *session) dropped(count streams, registered, gone bool) error {
	open, closed := s.listener.active()
	switch {
	case count.opened > 0 && count.open == 0:
		return errStreamsEnded
	case registered && gone:
		return errPeerGone
	// Up to Kubernetes 1.36, a kubelet that is late in handling the end of the previous stream closes this connection,
	// possibly before it has opened a stream.
	case registered && count.opened == 0 && closed && open == 0:
		return errConnClosed
	}
	return nil
}

// lost returns an error if kubelet.sock was replaced or the session's socket was removed.
func (s *session) lost(kubelet identity) error {
	if present, err := identify(s.endpoint.server.directory.kubelet); err == nil && present != kubelet {
		return errKubeletReplaced
	}
	if _, err := os.Lstat(s.path); missing(err) {
		return errSocketLost
	}
	return nil
}

// ready returns nil if the session is registered and has an open stream.
func (s *session) ready() error {
	switch count, _ := s.streams.Load(); {
	case !s.registered.Load():
		return errors.New("the kubelet has not answered the registration yet")
	case count.opened == 0:
		return errNoStream
	case count.open == 0:
		return errStreamsEnded
	}
	return nil
}

// end ends the streams, waits for them, and removes the socket. The streams must end first, because GracefulStop waits
// for them. A call that takes longer than drainTimeout is interrupted.
//
// Up to Kubernetes 1.36, if the kubelet handles the end of a stream after the resource's next registration, it closes
// the new connection. So end waits until the kubelet has closed the old connection. Calls that arrive in the meantime
// are answered and get their own drainTimeout, so end takes at most twice drainTimeout. The next session begins only
// after another pause (settle).
func (s *session) end() {
	close(s.ending)
	drain := s.endpoint.server.drain
	s.listener.awaitClosed(time.After(drain))
	_ = s.listener.Close() // do this first, so that clients can't reconnect when their connections are closed
	s.listener.closeConns(false)
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		s.server.GracefulStop()
	}()
	select {
	case <-stopped:
	case <-time.After(drain):
		s.listener.closeConns(true) // otherwise Stop would wait for a client that has only sent part of a message
		s.server.Stop()
		<-stopped
	}
	<-s.served
}
