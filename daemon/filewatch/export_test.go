package filewatch

import (
	"context"
	"io/fs"

	"github.com/fsnotify/fsnotify"
	"go.uber.org/zap"
)

// Watch is the state of [Run].
type Watch = watch

// New returns a watch of files in these directories.
func New(files, dirs []string, log *zap.Logger) *Watch {
	return &watch{files: files, dirs: dirs, log: log}
}

// Open watches the directories.
func (w *Watch) Open() { w.open() }

// Close closes the watch.
func (w *Watch) Close() { w.close() }

// Await blocks until a file may have changed.
func (w *Watch) Await(ctx context.Context) { w.await(ctx) }

// Events returns the events of the open watch; nil: it is not open.
func (w *Watch) Events() <-chan fsnotify.Event { return w.events }

// Feed replaces the events of inotify.
func (w *Watch) Feed(events <-chan fsnotify.Event, failed <-chan error) {
	w.events, w.failed, w.watched = events, failed, []fs.FileInfo{nil}
	if events != nil {
		w.watched = nil
	}
}
