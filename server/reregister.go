package server

import (
	"context"
	"errors"
	"time"

	"b-com.com/accelerator-device-plugin/internal/backoff"
	"b-com.com/accelerator-device-plugin/internal/logevent"
)

// steadyAfter is the minimum length of a session after which the loss of its socket or stream doesn't cause a backoff.
// After a shorter session, the next one waits. Otherwise a program that deletes sockets as soon as they are created, or
// a kubelet that immediately closes each stream, would cause a storm of registrations.
const steadyAfter = time.Second

// settle is the pause between a session and the next one with the same kubelet. Up to Kubernetes 1.36, the kubelet
// closes an ended session's connection, and a few milliseconds later it marks all of the resource's devices as
// unhealthy. If the next session had already sent its list by then, the devices would stay unhealthy until yet another
// registration.
const settle = 100 * time.Millisecond

// run runs one session after another until ctx is done.
func (e *endpoint) run(ctx context.Context) {
	defer func() {
		e.replace(nil)
		e.ends.Wait()
	}()
	if e.after != nil {
		// Wait until the resource's previous endpoint has ended, which doesn't take long. Otherwise the kubelet would
		// mistake the end of the old stream for the end of the resource.
		<-e.after
	}
	retry := backoff.Backoff{First: e.server.cfg.BackoffMin, Most: e.server.cfg.BackoffMax}
	for {
		if !e.awaitDevices(ctx) {
			return
		}
		// Call Next after awaitDevices, because the session that begins now also satisfies all earlier calls to
		// Reregister.
		reregister := e.server.reregister.Next()
		began := time.Now()
		replacing := e.superseded != nil
		tried, err := e.runSession(ctx, reregister)
		if ctx.Err() != nil {
			return
		}
		e.setProblem(err)
		lived := time.Since(began)
		atOnce := errors.Is(err, errReregister) || errors.Is(err, errKubeletReplaced) || errors.Is(err, errPeerGone) ||
			(lived >= steadyAfter || replacing) && (errors.Is(err, errSocketLost) || errors.Is(err, errStreamsEnded))
		if atOnce || lived >= max(steadyAfter, e.server.cfg.BackoffMax) {
			retry.Reset()
		}
		var wait time.Duration
		if !atOnce {
			wait = retry.Next()
		}
		if wait < settle && !errors.Is(err, errKubeletReplaced) && !errors.Is(err, errNoKubelet) {
			wait, reregister = settle, nil // not even Reregister cuts this wait short
		}
		e.report(err, wait)
		if e.pause(ctx, wait, tried, reregister) {
			retry.Reset()
		}
	}
}

// report logs why a session ended.
func (e *endpoint) report(err error, wait time.Duration) {
	switch {
	case errors.Is(err, errKubeletReplaced):
		// noteKubelet logs the restart once the new kubelet is connected.
	case errors.Is(err, errSocketLost):
		e.log.Warn("socket lost", logevent.SocketLost, logevent.Retry(wait))
	case errors.Is(err, errReregister), errors.Is(err, errStreamsEnded),
		errors.Is(err, errConnClosed), errors.Is(err, errPeerGone):
		e.log.Info("registration ended", logevent.RegistrationEnded, logevent.Reason(err.Error()), logevent.Retry(wait))
	case errors.Is(err, errNoKubelet):
		if !e.absent {
			e.absent = true
			e.log.Info("kubelet absent", logevent.KubeletAbsent, logevent.Socket(e.server.directory.kubelet), logevent.Err(err))
		}
	default:
		e.server.cfg.Metrics.RegistrationFailed(e.resource)
		e.log.Warn("registration failed", logevent.RegisterFailed, logevent.Err(err), logevent.Retry(wait))
	}
}

// noteKubelet records which kubelet is at the other end of a connection, and logs a restart if the previous connection
// led to a different one.
func (e *endpoint) noteKubelet(kubelet identity) {
	if e.kubelet != kubelet && e.kubelet != (identity{}) {
		e.server.cfg.Metrics.KubeletRestarted(e.resource)
		e.log.Info("kubelet restarted", logevent.KubeletRestarted)
	}
	e.kubelet = kubelet
	e.absent = false
}

// pause waits for the given time. It returns early, and returns true, if kubelet.sock is no longer the socket in tried
// or if Reregister is called.
func (e *endpoint) pause(ctx context.Context, wait time.Duration, tried identity, reregister <-chan struct{}) bool {
	if wait == 0 {
		return false
	}
	over := time.After(wait)
	for {
		changed := e.server.directory.changed.Next()
		if present, err := identify(e.server.directory.kubelet); err == nil && present != tried {
			return true
		}
		select {
		case <-ctx.Done():
			return false
		case <-over:
			return false
		case <-reregister:
			return true
		case <-changed:
		}
	}
}
