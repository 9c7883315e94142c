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
	failed  chan error // of size one: a receiver handles a second error like the first
	running sync.WaitGroup
}

// Open returns an instance without watches, which must be closed.
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
		// fsnotify removes the watch of a directory that was moved. If the directory was deleted,
		// the kernel has removed the watch already.
		if errors.Is(err, syscall.EINVAL) {
			continue
		}
		select {
		case n.failed <- err:
		default: // an earlier error has not been received yet
		}
	}
}

// Close closes the instance and waits for its goroutines. It must be called once.
func (n *Instance) Close() {
	_ = n.fs.Close() // closing an inotify descriptor cannot fail in a way that matters
	n.running.Wait()
}

// Add watches a directory. The directory may be watched already.
func (n *Instance) Add(dir string) error {
	if err := n.fs.Add(dir); err != nil {
		return fmt.Errorf("watch %s: %w", dir, limit(err))
	}
	return nil
}

// Watching reports whether the directory is still watched. The kernel removes the watch of a directory that was deleted
// or unmounted, and fsnotify removes the watch of a directory that was moved.
func (n *Instance) Watching(dir string) bool { return slices.Contains(n.fs.WatchList(), dir) }

// Event is an event of a watch.
type Event = fsnotify.Event

// Events returns the channel of the events of all watches. Close closes it.
func (n *Instance) Events() <-chan Event { return n.fs.Events }

// Failed returns the channel of errors. fsnotify.ErrEventOverflow means that events were lost; the
// watches continue. After any other error the instance must be closed.
func (n *Instance) Failed() <-chan error { return n.failed }

// limit adds the name of the sysctl to an error that does not mention it.
func limit(err error) error {
	switch {
	case errors.Is(err, syscall.ENOSPC):
		return fmt.Errorf("fs.inotify.max_user_watches is used up: %w", err)
	case errors.Is(err, syscall.EMFILE):
		return fmt.Errorf("fs.inotify.max_user_instances (or the limit of open files) is used up: %w", err)
	}
	return err
}
