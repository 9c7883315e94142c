package notify

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"syscall"

	"github.com/fsnotify/fsnotify"
)

// Instance is one inotify instance.
type Instance struct {
	fs      *fsnotify.Watcher
	failed  chan error // has room for one error, because a second one wouldn't make any difference to receivers
	running sync.WaitGroup
}

// Open returns an instance without watches. The caller must close it.
func Open() (*Instance, error) {
	w, err := fsnotify.NewWatcher()
	if err != nil {
		return nil, limit(err)
	}
	n := &Instance{fs: w, failed: make(chan error, 1)}
	n.running.Go(n.takeErrors)
	return n, nil
}

func (n *Instance) takeErrors() {
	for err := range n.fs.Errors {
		// fsnotify tries to remove the watch on a directory that was moved. This fails with EINVAL if the directory has
		// been deleted since, because the kernel has already removed the watch.
		if errors.Is(err, syscall.EINVAL) {
			continue
		}
		select {
		case n.failed <- err:
		default: // an earlier error hasn't been received yet
		}
	}
}

// Close closes the instance and waits for its goroutines. It must be called exactly once.
func (n *Instance) Close() {
	_ = n.fs.Close() // an error from closing an inotify descriptor doesn't matter
	n.running.Wait()
}

// Add watches a directory, which may already be watched.
func (n *Instance) Add(dir string) error {
	if err := n.fs.Add(dir); err != nil {
		return fmt.Errorf("watch %s: %w", dir, limit(err))
	}
	return nil
}

// Watching reports whether dir is still being watched. The kernel removes the watch on a directory that was deleted or
// unmounted, and fsnotify removes the watch on a directory that was moved.
func (n *Instance) Watching(dir string) bool { return slices.Contains(n.fs.WatchList(), dir) }

// Event is an event from a watch.
type Event = fsnotify.Event

// Events returns the channel on which events from all watches are sent. Close closes it.
func (n *Instance) Events() <-chan Event { return n.fs.Events }

// Failed returns the channel on which errors are sent. fsnotify.ErrEventOverflow means that events were lost, but the
// watches are still active. After any other error, the instance must be closed.
func (n *Instance) Failed() <-chan error { return n.failed }

// limit adds the name of the exhausted sysctl to an error that doesn't mention it.
func limit(err error) error {
	switch {
	case errors.Is(err, syscall.ENOSPC):
		return fmt.Errorf("fs.inotify.max_user_watches is used up: %w", err)
	case errors.Is(err, syscall.EMFILE):
		return fmt.Errorf("fs.inotify.max_user_instances (or the limit of open files) is used up: %w", err)
	}
	return err
}
