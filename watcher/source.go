package watcher

import (
	"context"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"b-com.com/accelerator-device-plugin/internal/backoff"
	"b-com.com/accelerator-device-plugin/internal/logevent"
	"b-com.com/accelerator-device-plugin/internal/metrics"
	"b-com.com/accelerator-device-plugin/internal/pulse"
)

// Kinds of sources.
const (
	sourceUEvent = "uevent"
	sourceNodes  = "nodes"
	sourceTree   = "tree"
)

// source is a source of events: [uevents], [nodes] or [tree].
type source interface {
	// open opens the source and returns additional fields for the log. The kernel queues all events from then on.
	open() ([]zap.Field, error)
	// listen calls hint for all events until ctx is done or the source fails. It tells p whether it is working or
	// waiting.
	listen(ctx context.Context, p *pulse.Pulse, hint func(Hint)) error
	// close closes the source's file descriptors, even after a failed open.
	close()
}

// keeper keeps a source open. If the source is lost, keeper logs that once, reopens the source, and then sends a hint
// for everything.
type keeper struct {
	kind      string // one of the constants above
	name      string // name in the log; the two inotify sources have the same name but different paths
	path      string // the watched path, or ""
	remaining string // for the log; the sources that still find changes while this one is lost
	retry     backoff.Backoff
	src       source
	log       *zap.Logger
	metrics   *metrics.Metrics
	pulse     *pulse.Pulse           // the pulse of run's goroutine
	up        bool                   // the source is open
	lost      *atomic.Pointer[error] // why the source isn't open; nil if it is
}

// start opens the source for the first time.
func (k *keeper) start() {
	fields, err := k.open()
	if err != nil {
		k.warn(err)
		return
	}
	k.log.Info("source opened", k.fields(append(fields, logevent.SourceOpened)...)...)
}

func (k *keeper) run(ctx context.Context, hint func(Hint)) {
	defer k.pulse.Rest()
	defer k.stop()
	for {
		if !k.up && !k.reopen(ctx, hint) {
			return
		}
		since := time.Now()
		err := k.src.listen(ctx, k.pulse, hint)
		if ctx.Err() != nil {
			return
		}
		k.stop()
		k.warn(err)
		// Reset the delay only if the source has worked for a while. If it always fails as soon as it is open, the
		// delay must keep growing.
		if time.Since(since) > k.retry.Most {
			k.retry.Reset()
		}
	}
}

// reopen tries to open the source until it succeeds. It returns false if ctx is done first.
func (k *keeper) reopen(ctx context.Context, hint func(Hint)) bool {
	for {
		delay := k.retry.Next()
		k.pulse.Rest()
		select {
		case <-ctx.Done():
			return false
		case <-time.After(delay):
		}
		k.pulse.Work()
		fields, err := k.open()
		if err == nil {
			k.log.Info("source recovered", k.fields(append(fields, logevent.SourceRecovered)...)...)
			hint(Hint{Source: SourceReopen, At: time.Now()})
			return true
		}
		k.log.Debug("source still lost", k.fields(logevent.SourceLost, logevent.Err(err))...)
	}
}

func (k *keeper) open() ([]zap.Field, error) {
	fields, err := k.src.open()
	k.metrics.Source(k.kind, err == nil)
	if err != nil {
		k.src.close()
		return nil, err
	}
	k.up = true
	k.lost.Store(nil)
	return fields, nil
}

func (k *keeper) stop() {
	k.src.close()
	k.up = false
	k.metrics.Source(k.kind, false)
}

func (k *keeper) warn(err error) {
	k.lost.Store(&err)
	k.log.Warn("source lost", k.fields(logevent.SourceLost, logevent.Err(err), logevent.Remaining(k.remaining))...)
}

func (k *keeper) fields(more ...zap.Field) []zap.Field {
	fields := []zap.Field{logevent.Source(k.name)}
	if k.path != "" {
		fields = append(fields, logevent.Path(k.path))
	}
	return append(fields, more...)
}
