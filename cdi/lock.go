package cdi

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
)

// lock is a flock(2) on the lock file. A shared lock tells other daemons that this one is running. The kernel releases
// the lock when the process ends, even if it is killed.
type lock struct{ file *os.File }

// ensureLock acquires the shared lock, unless the Spec already holds it. If the lock file or the directory has been
// removed or replaced, ensureLock takes the lock again.
func (s *Spec) ensureLock() error {
	if s.lock != nil && s.lock.inPlace(s.files.lock) {
		return nil
	}
	s.lock.release()
	s.lock = nil
	if err := s.files.makeDir(); err != nil {
		return err
	}
	var err error
	s.lock, err = acquire(s.files)
	return err
}

// usableDir is appended to errors about a directory that can't be used.
const usableDir = "; want a writable directory with free space (in a container, a mount that is not read-only)"

// releaseLock releases the lock. If no other daemon holds a lock, it first removes the spec, the temporary files and
// the lock file.
func (s *Spec) releaseLock() error {
	defer func() {
		s.lock.release()
		s.lock = nil
	}()
	if s.lock == nil || !s.lock.inPlace(s.files.lock) {
		s.lock.release()
		var err error
		if s.lock, err = acquire(s.files); errors.Is(err, fs.ErrNotExist) {
			return nil // the directory is gone
		} else if err != nil {
			return fmt.Errorf("CDI spec %s not removed: %w", s.files.spec, err)
		}
	}
	// flock(2) releases the shared lock before trying to get the exclusive one, so if two daemons exit at the same
	// time, the later one gets the exclusive lock.
	if err := s.lock.flock(syscall.LOCK_EX | syscall.LOCK_NB); errors.Is(err, syscall.EWOULDBLOCK) {
		return nil
	} else if err != nil {
		return fmt.Errorf("CDI spec %s not removed: %w", s.files.spec, err)
	}
	return errors.Join(s.files.remove(), s.files.removeLeftovers(), os.Remove(s.files.lock))
}

// acquire takes a shared lock on the lock file, creating the file if needed. If no other daemon holds a lock, acquire
// first removes temporary files left by killed daemons. It blocks while another daemon holds the exclusive lock to
// remove files, which happens at startup and exit.
func acquire(f files) (*lock, error) {
	for {
		// The mode is 0600 so that no other user can lock the file. It isn't opened for writing, because that would
		// prevent the file system from being remounted read-only.
		file, err := os.OpenFile(f.lock, os.O_RDONLY|os.O_CREATE|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0o600)
		if err != nil {
			return nil, err
		}
		l := &lock{file}
		switch err = l.flock(syscall.LOCK_EX | syscall.LOCK_NB); {
		case errors.Is(err, syscall.EWOULDBLOCK):
			err = nil
		case err == nil && l.inPlace(f.lock):
			err = f.removeLeftovers()
		}
		if err == nil {
			err = l.flock(syscall.LOCK_SH)
		}
		if err == nil && l.inPlace(f.lock) {
			return l, nil
		}
		l.release()
		if err != nil {
			return nil, err
		}
		// Since the file was opened, the last daemon that had it locked has exited and removed it, so try again.
	}
}

// flock calls flock(2), retrying after EINTR. how is LOCK_SH or LOCK_EX, optionally with LOCK_NB to return EWOULDBLOCK
// instead of blocking.
func (l *lock) flock(how int) error {
	for {
		switch err := syscall.Flock(int(l.file.Fd()), how); err {
		case nil:
			return nil
		case syscall.EINTR:
		default:
			return &fs.PathError{Op: "flock", Path: l.file.Name(), Err: err}
		}
	}
}

// inPlace reports whether the locked file is still at path, where other daemons look for it.
func (l *lock) inPlace(path string) bool {
	held, err := l.file.Stat()
	if err != nil {
		return false
	}
	there, err := os.Lstat(path)
	return err == nil && os.SameFile(held, there)
}

func (l *lock) release() {
	if l != nil {
		_ = l.file.Close()
	}
}
