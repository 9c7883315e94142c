package watcher

import (
	"context"
	"time"

	"go.uber.org/zap"

	"b-com.com/accelerator-device-plugin/internal/backoff"
	"b-com.com/accelerator-device-plugin/internal/event"
	"b-com.com/accelerator-device-plugin/internal/metrics"
	"b-com.com/accelerator-device-plugin/internal/pulse"
)

// The sources, by what they listen to.
const (
	sourceUEvent = "uevent"
	sourceNodes  = "nodes"
	sourceTree   = "tree"
)

// source is a source of news: [uevents], [nodes] or [tree].
type source interface {
	// open opens the source; the kernel queues all news from then on. The fields are for
	// the log.
	open() ([]zap.Field, error)
	// listen calls hint for all news until ctx ends or the source breaks. It marks in p
	// when it works and when it waits.
	listen(ctx context.Context, p *pulse.Pulse, hint func(Hint)) error
	// close releases what open has opened, also after an open that failed.
	close()
}

// keeper keeps a source open. It logs once that the source is lost, opens it again, and then
// gives a hint for everything.
type keeper struct {
	kind      string // of the source: one of the constants above
	name      string // in the log; the two of inotify differ in their path
	path      string // that is watched, or ""
	remaining string // sources that have the news while this one is lost
	retry     backoff.Backoff
	src       source
	log       *zap.Logger
	metrics   *metrics.Metrics
	pulse     *pulse.Pulse // of run
	up        bool
}

// start opens the source for the first time.
func (k *keeper) start() {
	fields, err := k.open()
	if err != nil {
		k.warn(err)
		return
	}
	k.log.Info("source opened", k.fields(append(fields, event.SourceOpened)...)...)
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
		// The delay must grow if the source breaks as soon as it is open.
		if time.Since(since) > k.retry.Most {
			k.retry.Reset()
		}
	}
}

// reopen blocks until the source is open, or returns false if ctx ends.
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
			k.log.Info("source recovered", k.fields(append(fields, event.SourceRecovered)...)...)
			hint(Hint{Source: SourceReopen, At: time.Now()})
			return true
		}
		k.log.Debug("source still lost", k.fields(event.SourceLost, event.Err(err))...)
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
	return fields, nil
}

func (k *keeper) stop() {
	k.src.close()
	k.up = false
	k.metrics.Source(k.kind, false)
}

func (k *keeper) warn(err error) {
	k.log.Warn("source lost", k.fields(event.SourceLost, event.Err(err), event.Remaining(k.remaining))...)
}

func (k *keeper) fields(more ...zap.Field) []zap.Field {
	fields := []zap.Field{event.Source(k.name)}
	if k.path != "" {
		fields = append(fields, event.Path(k.path))
	}
	return append(fields, more...)
}
