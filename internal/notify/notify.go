package notify

import (
	"errors"
	"fmt"
	"sync"
	"syscall"

	"github.com/fsnotify/fsnotify"
)

// Instance is one inotify instance.
type Instance struct {
	fs      *fsnotify.Watcher
	failed  chan error // one slot: a second error would say no more than the first
	running sync.WaitGroup
}

// Open makes an instance that watches nothing yet. It must be closed.
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
		// fsnotify removes the watch of a directory that was moved. Where that
		// directory is deleted by now, the kernel has done so already.
		if errors.Is(err, syscall.EINVAL) {
			continue
		}
		select {
		case n.failed <- err:
		default: // an earlier error waits, and leads to the same
		}
	}
}

// Close ends the instance and waits for its goroutines. It is called once.
func (n *Instance) Close() {
	_ = n.fs.Close() // closing an inotify descriptor cannot fail in a way that matters
	n.running.Wait()
}

// Add watches a directory. It may be watched already.
func (n *Instance) Add(dir string) error {
	if err := n.fs.Add(dir); err != nil {
		return fmt.Errorf("watch %s: %w", dir, limit(err))
	}
	return nil
}

// Watching says whether any watch is left: the kernel drops that of a directory
// that was deleted or unmounted, fsnotify that of one that was moved.
func (n *Instance) Watching() bool { return len(n.fs.WatchList()) > 0 }

// Events are the events of all watches. The channel is closed by Close.
func (n *Instance) Events() <-chan fsnotify.Event { return n.fs.Events }

// Failed says why events were lost: fsnotify.ErrEventOverflow when the queue was
// full, where the watches go on; after any other error close the instance.
func (n *Instance) Failed() <-chan error { return n.failed }

// limit names the sysctl behind errors that do not.
func limit(err error) error {
	switch {
	case errors.Is(err, syscall.ENOSPC):
		return fmt.Errorf("fs.inotify.max_user_watches is used up: %w", err)
	case errors.Is(err, syscall.EMFILE):
		return fmt.Errorf("fs.inotify.max_user_instances (or the limit of open files) is used up: %w", err)
	}
	return err
}
