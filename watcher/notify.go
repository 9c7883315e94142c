package watcher

import (
	"errors"
	"fmt"
	"sync"

	"github.com/fsnotify/fsnotify"
	"golang.org/x/sys/unix"
)

// notify is one inotify instance. It has a goroutine that takes errors: fsnotify
// sends some while it holds the lock that adding a watch needs, so whoever adds
// watches cannot also be the one to receive them.
type notify struct {
	fs      *fsnotify.Watcher
	failed  chan error // one slot: after the first error the instance is of no use
	running sync.WaitGroup
}

func openNotify() (*notify, error) {
	w, err := fsnotify.NewWatcher()
	if err != nil {
		return nil, limit(err)
	}
	n := &notify{fs: w, failed: make(chan error, 1)}
	n.running.Go(n.takeErrors)
	return n, nil
}

func (n *notify) takeErrors() {
	for err := range n.fs.Errors {
		// fsnotify removes the watch of a directory that was moved. Where that
		// directory is deleted by now, the kernel has done so already.
		if errors.Is(err, unix.EINVAL) {
			continue
		}
		select {
		case n.failed <- err:
		default: // an earlier error waits, and leads to the same
		}
	}
}

func (n *notify) close() {
	_ = n.fs.Close() // closing an inotify descriptor cannot fail in a way that matters
	n.running.Wait()
}

// add watches a directory. It may be watched already.
func (n *notify) add(dir string) error {
	if err := n.fs.Add(dir); err != nil {
		return fmt.Errorf("watch %s: %w", dir, limit(err))
	}
	return nil
}

// limit names the sysctl behind errors that do not.
func limit(err error) error {
	switch {
	case errors.Is(err, unix.ENOSPC):
		return fmt.Errorf("fs.inotify.max_user_watches is used up: %w", err)
	case errors.Is(err, unix.EMFILE):
		return fmt.Errorf("fs.inotify.max_user_instances (or the limit of open files) is used up: %w", err)
	}
	return err
}
