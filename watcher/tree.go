package watcher

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/fsnotify/fsnotify"
	"go.uber.org/zap"
	"golang.org/x/sys/unix"

	"b-com.com/accelerator-device-plugin/internal/logevent"
	"b-com.com/accelerator-device-plugin/internal/metrics"
	"b-com.com/accelerator-device-plugin/internal/notify"
	"b-com.com/accelerator-device-plugin/internal/pulse"
	"b-com.com/accelerator-device-plugin/internal/sysfs"
)

// tree is the source of events about a simulated sysfs tree. It watches each directory in the tree, without following
// symlinks.
type tree struct {
	root    string
	log     *zap.Logger
	metrics *metrics.Metrics
	notify  *notify.Instance // nil while closed
	seen    seen
	broken  error // why a directory can't be watched; if it is set, the tree must be reopened
}

func (t *tree) open() ([]zap.Field, error) {
	if err := sysfs.CheckDir(t.root); err != nil {
		return nil, err
	}
	t.seen, t.broken = newSeen(len(t.root)), nil
	var err error
	if t.notify, err = notify.Open(); err != nil {
		return nil, err
	}
	t.walk(t.root, cards{})
	if t.broken != nil {
		return nil, t.broken
	}
	if !t.seen.dirs[t.root] {
		return nil, fmt.Errorf("%s: directory was removed: %w", t.root, fs.ErrNotExist)
	}
	return []zap.Field{logevent.Count(len(t.seen.dirs))}, nil
}

func (t *tree) close() {
	if t.notify != nil {
		t.notify.Close()
		t.notify = nil
	}
}

func (t *tree) listen(ctx context.Context, p *pulse.Pulse, hint func(Hint)) error {
	for {
		p.Rest()
		select {
		case <-ctx.Done():
			return nil
		case err := <-t.notify.Failed():
			p.Work()
			if !errors.Is(err, fsnotify.ErrEventOverflow) {
				return err
			}
			t.metrics.InotifyLost(sourceTree)
			t.log.Warn("inotify events lost", logevent.InotifyOverflow, logevent.Path(t.root))
			if err := t.reopen(SourceOverflow, hint); err != nil {
				return err
			}
		case ev, ok := <-t.notify.Events():
			p.Work()
			if !ok {
				return fsnotify.ErrClosed
			}
			if ev.Name == t.root && ev.Has(fsnotify.Remove|fsnotify.Rename) {
				return fmt.Errorf("%s: directory was removed: %w", t.root, fs.ErrNotExist)
			}
			if err := t.take(ev, hint); err != nil {
				return err
			}
		}
	}
}

// reopen watches the whole tree again and sends a hint for everything. Directories may have been created, removed or
// moved without our knowledge.
func (t *tree) reopen(source string, hint func(Hint)) error {
	at := time.Now()
	t.close()
	if _, err := t.open(); err != nil {
		return err
	}
	hint(Hint{Source: source, At: at})
	return nil
}

// take handles one inotify event. Reads don't cause events, so every event means a change.
func (t *tree) take(ev fsnotify.Event, hint func(Hint)) error {
	at := time.Now()
	changed := cards{}
	moved, fresh := false, false
	if ev.Has(fsnotify.Remove | fsnotify.Rename) {
		changed[t.seen.card(ev.Name)] = true
		moved = ev.Has(fsnotify.Rename) && t.seen.dirs[ev.Name]
		t.seen.remove(ev.Name)
	} else {
		if old := t.seen.links[ev.Name]; old != "" {
			changed[old] = true // the old target of a link that has been replaced
		}
		fresh = t.arrived(ev)
		changed[t.seen.card(ev.Name)] = true
	}
	changed.hint(hint, at)
	t.metrics.InotifyEvent(sourceTree)
	t.log.Debug("tree event received", logevent.InotifyEvent, logevent.Path(ev.Name), logevent.Action(ev.Op.String()))
	if moved {
		// The watches have moved along with the directory, so they now have the wrong names. Reopen the whole tree
		// instead of removing them one by one, because fsnotify tracks watches by path and panics if another directory
		// has taken the old path.
		return t.reopen(SourceInotify, hint)
	}
	if fresh {
		// The directory's entries may have been created before the watch, so they need hints too.
		below := cards{}
		t.walk(ev.Name, below)
		below.hint(hint, at)
	}
	return t.broken
}

// arrived updates what is known about an event's path: if it is a symlink, arrived stores the card that it leads to.
// arrived reports whether the path is a directory that isn't being watched yet, because it is new or has just become
// readable.
func (t *tree) arrived(ev fsnotify.Event) bool {
	if !ev.Has(fsnotify.Create | fsnotify.Chmod) {
		return false
	}
	info, err := os.Lstat(ev.Name)
	if err != nil {
		return false // the file has been removed again, which causes another event
	}
	if info.Mode()&fs.ModeSymlink != 0 {
		t.seen.addLink(ev.Name)
	}
	return info.IsDir() && !t.seen.dirs[ev.Name]
}

// walk watches dir and all directories below it, and adds their cards to found. It watches each directory before
// reading it, so that any later change to an entry causes an event.
func (t *tree) walk(dir string, found cards) {
	found[t.seen.card(dir)] = true
	if err := t.notify.Add(dir); err != nil {
		t.unwatched(dir, err)
	} else {
		t.seen.dirs[dir] = true
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.unwatched(dir, err)
	}
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		switch {
		case e.IsDir():
			t.walk(path, found)
		case e.Type()&fs.ModeSymlink != 0:
			t.seen.addLink(path)
		}
	}
}

// unwatched handles the error err from watching or reading dir. If the directory has been removed or access is denied,
// it logs the error at Debug. Otherwise the system is out of watches, file descriptors or memory, and the source is
// lost until it can be reopened.
func (t *tree) unwatched(dir string, err error) {
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, fs.ErrPermission) {
		t.log.Debug("directory not watched", logevent.SourceLost, logevent.Source("inotify"), logevent.Path(dir), logevent.Err(err))
		return
	}
	t.broken = err
}
