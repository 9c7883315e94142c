package privatedir

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// Lock is a lock held by this process. See [AcquireLock] and [TryLock].
type Lock struct {
	file *os.File
}

// AcquireLock waits until this process holds the exclusive lock, or ctx is done. The lock is a flock on the named file,
// which is created if it doesn't exist. dir must come from [OpenDir], because any user who can open the file could hold
// the lock forever. The lock ends when it is released or the process exits. (A child process that inherited the file
// descriptor would keep the lock, but Go opens files with O_CLOEXEC.)
func AcquireLock(ctx context.Context, dir *os.Root, name string) (*Lock, error) {
	// Poll, because canceling ctx wouldn't interrupt a blocking flock.
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		lock, err := TryLock(dir, name, Exclusive)
		if lock != nil || err != nil {
			return lock, err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil, fmt.Errorf("%s: held by another process: fuser -v %[1]s: %w",
				filepath.Join(dir.Name(), name), context.Cause(ctx))
		}
	}
}

// Kind is a kind of lock.
type Kind int

// Kinds of locks.
const (
	Exclusive Kind = syscall.LOCK_EX // no other process has a lock on the file
	Shared    Kind = syscall.LOCK_SH // other processes may also have shared locks on the file
)

// TryLock is like [AcquireLock], but returns nil instead of blocking if another process holds a conflicting lock.
func TryLock(dir *os.Root, name string, kind Kind) (*Lock, error) {
	path := filepath.Join(dir.Name(), name)
	// Use O_EXCL, because it doesn't follow links. If two processes create the file at the same time, one of them gets
	// EEXIST, which is fine.
	made, err := dir.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err == nil {
		made.Close()
	} else if !errors.Is(err, fs.ErrExist) {
		return nil, PathError(path, err)
	}
	file, err := OpenFile(dir, name, os.O_RDWR) // NFS requires a writable file for an exclusive lock
	if errors.Is(err, syscall.EROFS) {
		file, err = OpenFile(dir, name, os.O_RDONLY)
	}
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, ErrReplaced) {
		return nil, nil // the file has been removed or replaced
	}
	if err != nil {
		return nil, err
	}
	info, err := file.Stat()
	if err == nil && info.Mode().Perm()&0o077 != 0 {
		err = file.Chmod(0o600) // a process that can read a file can hold a lock on it
	}
	if err == nil {
		err = syscall.Flock(int(file.Fd()), int(kind)|syscall.LOCK_NB)
	}
	if err == nil {
		// Other processes may have removed and recreated the file in the meantime.
		var now fs.FileInfo
		if now, err = dir.Lstat(name); err == nil && os.SameFile(info, now) {
			return &Lock{file}, nil
		}
	}
	file.Close()
	switch {
	case err == nil, errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.EWOULDBLOCK), errors.Is(err, syscall.EINTR):
		return nil, nil
	}
	return nil, PathError(path, err)
}

// Stat returns information about the locked file.
func (l *Lock) Stat() (fs.FileInfo, error) { return l.file.Stat() }

// Release ends the lock.
func (l *Lock) Release() error {
	return l.file.Close()
}
