package programming

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// Lock keeps other processes from programming a card.
type Lock struct {
	file *os.File
}

// AcquireLock blocks until this process alone has the lock of an FME, or ctx ends. The lock
// is a flock on a file in dir, which is made when it is missing, and must be as safe as a
// [Store]: whoever can open the file can hold the lock for ever. The lock ends with
// Release, or with the process. A child that inherits the descriptor would prolong it; Go
// opens with O_CLOEXEC.
func AcquireLock(ctx context.Context, dir, fme string) (*Lock, error) {
	if fme == "" || strings.ContainsAny(fme, "/\x00") || strings.HasPrefix(fme, ".") {
		return nil, fmt.Errorf("lock %q, want the name of an FME", fme)
	}
	root, err := openOwnDir(dir, true)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	name := fme + ".lock"
	path := filepath.Join(root.Name(), name)
	// O_EXCL does not follow links. If two processes create the file at once, one gets EEXIST.
	made, err := root.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err == nil {
		made.Close()
	} else if !errors.Is(err, fs.ErrExist) {
		return nil, pathError(path, err)
	}
	file, err := openOwnFile(root, name, os.O_RDWR)
	if err != nil {
		return nil, err
	}
	// A blocking flock does not end with ctx.
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		err = syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		switch {
		case err == nil:
			return &Lock{file}, nil
		case errors.Is(err, syscall.EINTR):
			continue
		case !errors.Is(err, syscall.EWOULDBLOCK):
			file.Close()
			return nil, &fs.PathError{Op: "flock", Path: path, Err: err}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			file.Close()
			return nil, fmt.Errorf("%s: held by another process that programs the card, want it free: fuser -v %[1]s: %w", path, context.Cause(ctx))
		}
	}
}

// Release ends the lock.
func (l *Lock) Release() error {
	return l.file.Close()
}
