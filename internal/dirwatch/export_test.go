package dirwatch

import (
	"context"
	"time"

	"b-com.com/accelerator-device-plugin/internal/notify"
)

// Await blocks until something may have changed. It returns false if inotify must be opened again.
func Await(ctx context.Context, cfg Config, interval time.Duration, events <-chan notify.Event, failed <-chan error) bool {
	return (&watch{Config: cfg}).await(ctx, interval, events, failed)
}

// Watch is the state of Run.
type Watch struct{ w watch }

// New returns a watch that is not open.
func New(cfg Config) *Watch { return &Watch{watch{Config: cfg}} }

// Open watches the directories, and reports whether these are all.
func (w *Watch) Open() bool { return w.w.open() }

// Close closes the watch.
func (w *Watch) Close() { w.w.close() }
