package watcher

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/fsnotify/fsnotify"
	"go.uber.org/zap"

	"b-com.com/accelerator-device-plugin/internal/logevent"
	"b-com.com/accelerator-device-plugin/internal/metrics"
	"b-com.com/accelerator-device-plugin/internal/notify"
	"b-com.com/accelerator-device-plugin/internal/pulse"
	"b-com.com/accelerator-device-plugin/internal/sysfs"
)

// nodes is the source of events about device nodes. It has one watch, on their directory.
type nodes struct {
	dir      string
	prefixes []string
	log      *zap.Logger
	metrics  *metrics.Metrics
	notify   *notify.Instance // nil while closed
}

func (n *nodes) open() ([]zap.Field, error) {
	if err := sysfs.CheckDir(n.dir); err != nil {
		return nil, err
	}
	var err error
	if n.notify, err = notify.Open(); err != nil {
		return nil, err
	}
	return nil, n.notify.Add(n.dir)
}

func (n *nodes) close() {
	if n.notify != nil {
		n.notify.Close()
		n.notify = nil
	}
}

func (n *nodes) listen(ctx context.Context, p *pulse.Pulse, hint func(Hint)) error {
	for {
		p.Rest()
		select {
		case <-ctx.Done():
			return nil
		case err := <-n.notify.Failed():
			at := time.Now()
			p.WorkSince(at)
			if !errors.Is(err, fsnotify.ErrEventOverflow) {
				return err
			}
			// The watch still exists, so the source need not be opened again.
			n.metrics.InotifyLost(sourceNodes)
			n.log.Warn("inotify events lost", logevent.InotifyOverflow, logevent.Path(n.dir))
			hint(Hint{Source: SourceOverflow, At: at})
		case ev, ok := <-n.notify.Events():
			p.Work()
			if !ok {
				return fsnotify.ErrClosed
			}
			if err := n.take(ev, hint); err != nil {
				return err
			}
		}
	}
}

// take handles one event. An error means that the directory itself is gone.
func (n *nodes) take(ev fsnotify.Event, hint func(Hint)) error {
	if ev.Name == n.dir {
		if ev.Has(fsnotify.Remove | fsnotify.Rename) {
			return fmt.Errorf("%s: directory was removed: %w", n.dir, fs.ErrNotExist)
		}
		return nil
	}
	// Writes are ignored: before Linux 6.10 each write to /dev/null causes an event of /dev.
	if !ev.Has(fsnotify.Create | fsnotify.Remove | fsnotify.Rename | fsnotify.Chmod) {
		return nil
	}
	name := filepath.Base(ev.Name)
	if !slices.ContainsFunc(n.prefixes, func(prefix string) bool { return strings.HasPrefix(name, prefix) }) {
		return nil
	}
	hint(Hint{Node: name, Source: SourceInotify, At: time.Now()})
	n.metrics.InotifyEvent(sourceNodes)
	n.log.Debug("node event received", logevent.InotifyEvent, logevent.Node(name), logevent.Action(ev.Op.String()))
	return nil
}
