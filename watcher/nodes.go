package watcher

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
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

// nodes is the source of events about device nodes. It watches dir and the subdirectories that the prefixes name, which
// don't have to exist yet.
type nodes struct {
	dir      string
	prefixes []string
	below    []string // the subdirectories in the prefixes, such as vfio; parents come first
	log      *zap.Logger
	metrics  *metrics.Metrics
	notify   *notify.Instance // nil while closed
}

func newNodes(dir string, prefixes []string) *nodes {
	n := &nodes{dir: filepath.Clean(dir), prefixes: prefixes}
	for _, prefix := range prefixes {
		for i, c := range prefix {
			if c == '/' && !slices.Contains(n.below, prefix[:i]) {
				n.below = append(n.below, prefix[:i])
			}
		}
	}
	return n
}

func (n *nodes) open() ([]zap.Field, error) {
	if err := sysfs.CheckDir(n.dir); err != nil {
		return nil, err
	}
	var err error
	if n.notify, err = notify.Open(); err != nil {
		return nil, err
	}
	err = n.notify.Add(n.dir)
	for i := 0; i < len(n.below) && err == nil; i++ {
		err = n.add(n.below[i])
	}
	return nil, err
}

// add watches the subdirectory name of n.dir. If that directory doesn't exist or can't be read, add does nothing, and
// only the other sources can find the nodes in it.
func (n *nodes) add(name string) error {
	err := n.notify.Add(filepath.Join(n.dir, name))
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
		return nil
	}
	return err
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
			// inotify dropped events, but the watches still exist, so the source doesn't have to be reopened.
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

// take handles one inotify event. It returns an error if n.dir is gone or a directory can't be watched.
func (n *nodes) take(ev fsnotify.Event, hint func(Hint)) error {
	if ev.Name == n.dir && ev.Has(fsnotify.Remove|fsnotify.Rename) {
		return fmt.Errorf("%s: directory was removed: %w", n.dir, fs.ErrNotExist)
	}
	// Ignore writes, because before Linux 6.10, each write to /dev/null causes an event in /dev.
	if !ev.Has(fsnotify.Create | fsnotify.Remove | fsnotify.Rename | fsnotify.Chmod) {
		return nil
	}
	name := strings.TrimPrefix(ev.Name, n.dir+"/")
	if slices.Contains(n.below, name) {
		if !ev.Has(fsnotify.Create) {
			return nil // the nodes in it cause their own events
		}
		return n.arrived(name, hint)
	}
	n.hint(name, ev.Op, hint)
	return nil
}

// arrived watches a directory that has just been created, and the directories below it. It sends a hint for each node
// that these already contain, because the node may have been created before the watch.
func (n *nodes) arrived(dir string, hint func(Hint)) error {
	for _, name := range n.below {
		if name != dir && !strings.HasPrefix(name, dir+"/") {
			continue
		}
		if err := n.add(name); err != nil {
			return err
		}
		entries, _ := os.ReadDir(filepath.Join(n.dir, name)) // the directory may have been removed, or be unreadable
		for _, e := range entries {
			if node := name + "/" + e.Name(); !slices.Contains(n.below, node) {
				n.hint(node, fsnotify.Create, hint)
			}
		}
	}
	return nil
}

// hint sends a hint for a node, if it is relevant.
func (n *nodes) hint(name string, what fsnotify.Op, hint func(Hint)) {
	if !slices.ContainsFunc(n.prefixes, func(prefix string) bool { return strings.HasPrefix(name, prefix) }) {
		return
	}
	hint(Hint{Node: name, Source: SourceInotify, At: time.Now()})
	n.metrics.InotifyEvent(sourceNodes)
	n.log.Debug("node event received", logevent.InotifyEvent, logevent.Node(name), logevent.Action(what.String()))
}
