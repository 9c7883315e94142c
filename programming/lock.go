package programming

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"b-com.com/accelerator-device-plugin/internal/sysfs"
)

// Lock keeps other processes from programming a card.
type Lock struct {
	file *os.File
}

// AcquireLock blocks until this process alone has the lock of the card whose FME is at the PCI
// address, or ctx ends. The lock is a flock on a file in dir, which is made when it is
// missing, and must be as safe as a [Store]: a user who can open the file can hold the lock for
// ever. The lock ends with Release, or with the process. A child that inherits the descriptor
// would prolong it; Go opens with O_CLOEXEC.
func AcquireLock(ctx context.Context, dir, address string) (*Lock, error) {
	address, err := sysfs.ParsePCIAddress(address)
	if err != nil {
		return nil, fmt.Errorf("lock: %w", err)
	}
	root, err := openOwnDir(dir, true)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	// A blocking flock does not end with ctx.
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		lock, err := tryLock(root, address+".lock")
		if lock != nil || err != nil {
			return lock, err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil, fmt.Errorf("%s: held by another process that programs the card, want it free: fuser -v %[1]s: %w",
				filepath.Join(root.Name(), address+".lock"), context.Cause(ctx))
		}
	}
}

// tryLock returns the lock, or nil if another process holds it.
func tryLock(root *os.Root, name string) (*Lock, error) {
	path := filepath.Join(root.Name(), name)
	// O_EXCL does not follow links. If two processes create the file at once, one gets EEXIST.
	made, err := root.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err == nil {
		made.Close()
	} else if !errors.Is(err, fs.ErrExist) {
		return nil, pathError(path, err)
	}
	file, err := openOwnFile(root, name, os.O_RDWR)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, errReplaced) {
		return nil, nil // removed since
	}
	if err != nil {
		return nil, err
	}
	info, err := file.Stat()
	if err == nil && info.Mode().Perm()&0o077 != 0 {
		err = file.Chmod(0o600) // a process that can read a file can hold a lock on it
	}
	if err == nil {
		err = syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	}
	if err == nil {
		// The file can have been removed, and made anew by another process, since it was opened.
		var now fs.FileInfo
		if now, err = root.Lstat(name); err == nil && os.SameFile(info, now) {
			return &Lock{file}, nil
		}
	}
	file.Close()
	switch {
	case err == nil, errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.EWOULDBLOCK), errors.Is(err, syscall.EINTR):
		return nil, nil
	}
	return nil, pathError(path, err)
}

// Release ends the lock.
func (l *Lock) Release() error {
	return l.file.Close()
}
