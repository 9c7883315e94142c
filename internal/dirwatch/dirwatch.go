package dirwatch

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"slices"
	"syscall"
	"time"

	"github.com/fsnotify/fsnotify"
	"go.uber.org/zap"

	"b-com.com/accelerator-device-plugin/internal/logevent"
	"b-com.com/accelerator-device-plugin/internal/notify"
)

// Config says what to watch.
type Config struct {
	Dirs     []string                // clean paths
	Concerns func(notify.Event) bool // says whether an event in a directory should be reported
	Settle   time.Duration           // how long to wait before reporting an event, because editors save files in several steps
	Interval time.Duration           // maximum time between reports
	Blind    time.Duration           // replaces Interval while a directory is missing or inotify can't be used
	Log      *zap.Logger
}

// Run watches the directories until ctx is done. It calls changed once it has started watching, and then whenever
// something may have changed. changed may block.
func Run(ctx context.Context, cfg Config, changed func()) {
	w := watch{Config: cfg}
	defer w.close()
	for ctx.Err() == nil {
		interval := cfg.Interval
		if !w.open() {
			interval = cfg.Blind
		}
		changed()
		if w.notify == nil {
			w.await(ctx, interval, nil, nil)
		} else if !w.await(ctx, interval, w.notify.Events(), w.notify.Failed()) {
			w.close()
		}
	}
}

type watch struct {
	Config
	notify  *notify.Instance // nil if nothing is being watched
	watched []fs.FileInfo    // one for each element of Dirs; nil if that directory is missing
	refused bool             // an inotify error has been logged
}

// open watches the directories that are currently at the configured paths. It reports whether all of them exist and are
// being watched.
func (w *watch) open() bool {
	present := make([]fs.FileInfo, len(w.Dirs))
	for i, dir := range w.Dirs {
		if info, err := os.Stat(dir); err == nil && info.IsDir() {
			present[i] = info
		}
	}
	if !w.isOpen(present) {
		w.close() // an instance can't remove watches
		w.notify, w.watched = w.add(present), present
	}
	return w.notify != nil && !slices.Contains(w.watched, nil)
}

// isOpen reports whether the directories in present are the ones being watched. Comparing inode numbers isn't enough,
// because when a directory is deleted, the kernel removes its watch, and a new directory may reuse the inode number.
func (w *watch) isOpen(present []fs.FileInfo) bool {
	if w.notify == nil {
		return false
	}
	for i, info := range present {
		same := info == nil && w.watched[i] == nil || info != nil && w.watched[i] != nil && os.SameFile(info, w.watched[i])
		if !same || info != nil && !w.notify.Watching(w.Dirs[i]) {
			return false
		}
	}
	return true
}

// add returns an inotify instance that watches the directories in present, or nil if inotify can't be used. If a
// directory has been replaced since open called Stat, the new one will be watched by the next call to open.
func (w *watch) add(present []fs.FileInfo) *notify.Instance {
	n, err := notify.Open()
	if err != nil {
		w.refuse(w.Dirs[0], err)
		return nil
	}
	for i, dir := range w.Dirs {
		if present[i] == nil {
			continue
		}
		switch err := n.Add(dir); {
		case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR): // it has been removed since Stat
			present[i] = nil
		case err != nil:
			n.Close()
			w.refuse(dir, err)
			return nil
		}
	}
	if w.refused {
		w.refused = false
		w.Log.Info("directory watched again", logevent.SourceRecovered, logevent.Source("inotify"), logevent.Path(w.Dirs[0]))
	}
	return n
}

func (w *watch) refuse(dir string, err error) {
	if !w.refused {
		w.refused = true
		w.Log.Warn("directory not watched", logevent.SourceLost, logevent.Source("inotify"), logevent.Path(dir), logevent.Err(err),
			logevent.Remaining("the files are read every "+w.Blind.String()))
	}
}

func (w *watch) close() {
	if w.notify != nil {
		w.notify.Close()
	}
	w.notify, w.watched = nil, nil
}

// await waits until something may have changed or ctx is done. It returns false if the inotify instance has failed and
// must be closed.
func (w *watch) await(ctx context.Context, interval time.Duration, events <-chan notify.Event, failed <-chan error) bool {
	over := time.After(interval)
	var settled <-chan time.Time
	works := true
	for {
		select {
		case <-ctx.Done():
			return works
		case <-over:
			return works
		case <-settled:
			return works
		case <-failed: // for example an overflow, so watch again
			works, events, failed = false, nil, nil
			settled = time.After(w.Settle)
		case e, open := <-events:
			switch {
			case !open:
				works, events, failed = false, nil, nil
			case slices.Contains(w.Dirs, e.Name) && e.Has(fsnotify.Remove|fsnotify.Rename): // the watch has ended
			case !w.Concerns(e):
				continue
			}
			settled = time.After(w.Settle)
		}
	}
}
