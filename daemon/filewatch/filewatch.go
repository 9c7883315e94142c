package filewatch

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/fsnotify/fsnotify"
	"go.uber.org/zap"

	"b-com.com/accelerator-device-plugin/internal/logevent"
	"b-com.com/accelerator-device-plugin/internal/notify"
)

const (
	// Settle is the time without events after which a change is reported: an editor may write
	// a file in several steps.
	Settle = 250 * time.Millisecond
	// Interval is the longest time between two reports.
	Interval = time.Minute
	// BlindInterval replaces Interval while a directory is not watched.
	BlindInterval = 10 * time.Second
)

// Run calls changed once it watches the files, and then whenever one of them may have changed, until ctx
// ends. changed may block. The paths are absolute.
func Run(ctx context.Context, files []string, changed func(), log *zap.Logger) error {
	w := &watch{files: files, log: log}
	for _, file := range files {
		w.dirs = append(w.dirs, filepath.Dir(file))
	}
	defer w.close()
	for ctx.Err() == nil {
		w.open()
		changed()
		w.await(ctx)
	}
	return nil
}

type watch struct {
	files, dirs []string
	log         *zap.Logger

	notify  *notify.Instance // nil: nothing is watched
	watched []fs.FileInfo    // by index of dirs; a nil element: the directory is missing
	refused bool             // an error of inotify was logged

	events <-chan fsnotify.Event // of notify
	failed <-chan error
}

// open watches the directories that currently have the paths.
func (w *watch) open() {
	present := make([]fs.FileInfo, len(w.dirs))
	for i, dir := range w.dirs {
		if info, err := os.Stat(dir); err == nil {
			present[i] = info
		}
	}
	if w.notify != nil && slices.EqualFunc(w.watched, present, same) {
		return
	}
	w.close() // an instance has no function to remove a watch
	n, err := notify.Open()
	if err != nil {
		w.refuse(w.dirs[0], err)
		return
	}
	for i, dir := range w.dirs {
		if present[i] == nil {
			continue
		}
		switch err := n.Add(dir); {
		case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR): // it was removed since Stat
			present[i] = nil
		case err != nil:
			n.Close()
			w.refuse(dir, err)
			return
		}
	}
	if w.refused {
		w.refused = false
		w.log.Info("settings watched again", logevent.SourceRecovered, logevent.Source("inotify"), logevent.Path(w.dirs[0]))
	}
	// If a directory was replaced since Stat, the next open watches the new one.
	w.notify, w.watched = n, present
	w.events, w.failed = n.Events(), n.Failed()
}

func same(a, b fs.FileInfo) bool {
	return a == nil && b == nil || a != nil && b != nil && os.SameFile(a, b)
}

func (w *watch) refuse(dir string, err error) {
	if w.refused {
		return
	}
	w.refused = true
	w.log.Warn("settings not watched", logevent.SourceLost, logevent.Source("inotify"), logevent.Path(dir), logevent.Err(err),
		logevent.Remaining("the files are read every "+BlindInterval.String()))
}

func (w *watch) close() {
	if w.notify != nil {
		w.notify.Close()
	}
	w.notify, w.watched, w.events, w.failed = nil, nil, nil, nil
}

// await blocks until a file may have changed.
func (w *watch) await(ctx context.Context) {
	interval := Interval
	if w.events == nil || slices.Contains(w.watched, nil) {
		interval = BlindInterval
	}
	over := time.After(interval)
	var settled <-chan time.Time
	for {
		select {
		case <-ctx.Done():
			return
		case <-over:
			return
		case <-settled:
			return
		case <-w.failed: // an overflow, for example: watch again
			w.close()
			settled = time.After(Settle)
		case e, ok := <-w.events:
			switch {
			case !ok, slices.Contains(w.dirs, e.Name) && e.Has(fsnotify.Remove|fsnotify.Rename):
				w.close() // the watch has ended, and the next directory may have the same inode number
			case !w.concerns(e.Name):
				continue
			}
			settled = time.After(Settle)
		}
	}
}

// concerns reports whether an event with this path may be about one of the files. Names that begin with
// two dots, such as ..data, are used in the directory of a ConfigMap.
func (w *watch) concerns(path string) bool {
	return slices.Contains(w.files, path) || strings.HasPrefix(filepath.Base(path), "..")
}
