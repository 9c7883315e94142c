package server

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"b-com.com/accelerator-device-plugin/internal/event"
)

// Why a session ended. [endpoint.run] says after which of them the next one begins
// at once.
var (
	errReregister      = errors.New("asked to register again")
	errKubeletReplaced = errors.New("the kubelet was restarted")
	errSocketLost      = errors.New("our socket is gone")
	errTwinGone        = errors.New("another daemon has gone that registered after us")
	errStreamsEnded    = errors.New("the kubelet has ended the stream")
	errHungUp          = errors.New("the kubelet has hung up without opening a stream")
	errNoStream        = errors.New("the kubelet has opened no stream")
	errNoKubelet       = errors.New("there is no kubelet")
	errUnusable        = errors.New("the kubelet's socket cannot be used")
)

const (
	// maxMessage bounds a message from the kubelet, in bytes; its own bound is
	// the same.
	maxMessage = 4 << 20
	// maxStreams bounds the calls that one connection may have open.
	maxStreams = 64
	// drainTimeout is how long calls in flight may take when a session ends. An
	// Allocate that is cut off fails its pod for good.
	drainTimeout = 250 * time.Millisecond
)

// session is one registration: a socket, the server on it, and its streams.
type session struct {
	endpoint   *endpoint
	path       string    // of our socket
	made       time.Time // when that was made
	listener   *listener
	server     *grpc.Server
	served     chan error    // what Serve returned
	ending     chan struct{} // closed when streams shall end
	streams    *feed[streams]
	registered atomic.Bool
}

// streams counts the ListAndWatch streams of a session.
type streams struct {
	opened int // ever
	open   int // now
}

// session registers once and returns why that ended, never nil; everything that
// belonged to it has ended by then, but after errTwinGone: then it is left as undone,
// and serves until a session after it has its stream, or there is nobody to serve.
// It also says which kubelet.sock it was.
func (e *endpoint) session(ctx context.Context, reregister <-chan struct{}) (identity, error) {
	conn, kubelet, err := e.connect(ctx)
	if errors.Is(err, errNoKubelet) {
		e.replace(nil)
	}
	if err != nil {
		return kubelet, err
	}
	defer conn.Close()
	e.meet(kubelet)
	if e.undone != nil && e.undone.lost(kubelet) != nil {
		e.replace(nil)
	}
	s, err := e.serve()
	if err != nil {
		return kubelet, err
	}
	defer func() {
		if e.undone != s {
			s.end()
		}
	}()
	e.current.Store(s)
	defer e.current.Store(nil)

	registering, cancel := context.WithTimeout(ctx, e.cfg.RegisterTimeout)
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
	err = s.hold(ctx, kubelet, reregister, answer, func() { e.replace(nil) })
	switch {
	case errors.Is(err, errTwinGone):
		e.replace(s)
	case errors.Is(err, errKubeletReplaced), errors.Is(err, errSocketLost):
		e.replace(nil)
	}
	return kubelet, err
}

// replace ends the session that was left as undone, if there is one, and leaves s in
// its place, nil: none.
func (e *endpoint) replace(s *session) {
	if e.undone != nil {
		e.ends.Go(e.undone.end)
	}
	e.undone = s
}

// serve listens on a new socket and serves there.
func (e *endpoint) serve() (*session, error) {
	path := newSocketPath(e.cfg.KubeletDir, e.directory.twins.own)
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
		streams: newFeed(streams{}),
	}
	v1beta1.RegisterDevicePluginServer(s.server, &plugin{endpoint: e, session: s})
	go func() { s.served <- s.server.Serve(l) }()
	e.log.Debug("resource served", event.ResourceServed, event.Socket(path))
	return s, nil
}

// hold waits for the kubelet's answer, then for its stream, of which it tells up, then
// for the end of the session, and returns why it is to end.
func (s *session) hold(ctx context.Context, kubelet identity, reregister <-chan struct{}, answer <-chan error, up func()) error {
	e := s.endpoint
	timeout := time.NewTimer(e.cfg.StreamTimeout)
	defer timeout.Stop()
	for {
		changed, left := e.directory.changed.next(), s.listener.left.next()
		count, stale := s.streams.latest()
		departed, more := e.directory.twins.departed.latest()
		if err := s.lost(kubelet); err != nil {
			s.abandon(answer, err)
			return err
		}
		if count.opened > 0 && count.open == 0 {
			return errStreamsEnded
		}
		if count.open > 0 {
			up()
		}
		if answer == nil {
			if err := s.undone(count, departed); err != nil {
				return err
			}
		}
		select {
		case <-changed:
		case <-stale:
		case <-left:
		case <-more:
		case <-ctx.Done():
			return ctx.Err()
		case <-reregister:
			s.abandon(answer, errReregister)
			return errReregister
		case err := <-s.served:
			s.served <- err
			return fmt.Errorf("serving %s: %w", s.path, err)
		case <-timeout.C:
			if answer == nil && count.opened == 0 {
				return fmt.Errorf("%w within %v", errNoStream, e.cfg.StreamTimeout)
			}
		case err := <-answer:
			if err != nil {
				return err
			}
			answer = nil
			s.registered.Store(true)
			timeout.Reset(e.cfg.StreamTimeout)
			e.cfg.Metrics.Registered(e.resource)
			e.log.Info("resource registered", event.ResourceRegistered, event.Socket(s.path))
		}
	}
}

// lost says whether the kubelet was replaced or our socket is gone.
func (s *session) lost(kubelet identity) error {
	if present, err := identify(s.endpoint.kubelet, fs.ModeSocket); err == nil && present != kubelet {
		return errKubeletReplaced
	}
	if _, err := os.Lstat(s.path); missing(err) {
		return errSocketLost
	}
	return nil
}

// undone says whether the kubelet, which had answered, may have forgotten us since.
func (s *session) undone(count streams, departed departure) error {
	if departed.undoes(s.made) {
		return errTwinGone
	}
	// A kubelet up to 1.36 that notices late that the stream before has ended hangs
	// up, whether it has opened the next one yet or not.
	if open, heard := s.listener.speaking(); count.opened == 0 && heard && open == 0 {
		return errHungUp
	}
	return nil
}

// abandon logs that nobody waits for the kubelet's answer any more, where there
// was none yet.
func (s *session) abandon(answer <-chan error, why error) {
	if answer != nil {
		s.endpoint.cfg.Metrics.RegistrationAbandoned(s.endpoint.resource)
		s.endpoint.log.Info("register abandoned", event.RegisterAbandoned, event.Reason(why.Error()))
	}
}

// ready returns nil when the session is registered with a stream open.
func (s *session) ready() error {
	switch count, _ := s.streams.latest(); {
	case !s.registered.Load():
		return errors.New("the kubelet has not answered the registration yet")
	case count.opened == 0:
		return errNoStream
	case count.open == 0:
		return errStreamsEnded
	}
	return nil
}

// isEnding says whether the session is ending its streams.
func (s *session) isEnding() bool {
	select {
	case <-s.ending:
		return true
	default:
		return false
	}
}

// end ends the streams, waits for them, and removes the socket. Only the streams
// would keep GracefulStop from returning, so they are ended first; whoever is
// busy for longer than drainTimeout is cut off.
//
// A kubelet up to 1.36 that notices late that a stream has ended takes the next
// registration of that resource for the one that is over, and hangs up on it. So
// it is waited for until it has noticed: it closes its connection then. Calls that
// come meanwhile are answered, so that they have drainTimeout of their own; the end
// takes twice that at most.
func (s *session) end() {
	close(s.ending)
	patience := time.NewTimer(drainTimeout)
	defer patience.Stop()
	s.listener.awaitHangup(patience.C)
	_ = s.listener.Close() // that who is cut now does not come again
	s.listener.cutSilent()
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		s.server.GracefulStop()
	}()
	timer := time.NewTimer(drainTimeout)
	defer timer.Stop()
	select {
	case <-stopped:
	case <-timer.C:
		s.listener.cut()
		s.server.Stop()
		<-stopped
	}
	<-s.served
}
