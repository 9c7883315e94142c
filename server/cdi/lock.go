package cdi

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
)

// lock says that we live: a shared flock(2) on the lock file. The kernel gives
// it up when the process ends, however it ends.
type lock struct{ file *os.File }

// hold makes sure that others see that we live: the lock file, or the whole
// directory, may have been removed since.
func (s *Spec) hold() error {
	if s.lock != nil && s.lock.counts(s.files.lock()) {
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

// needs is what helps when the directory cannot be used.
const needs = "; it must be a directory with room that the daemon may write to (in a container, a mount that is not read-only)"

// leave gives the lock up, and removes the spec and all else if nobody else has
// it.
func (s *Spec) leave() error {
	defer func() {
		s.lock.release()
		s.lock = nil
	}()
	if s.lock == nil || !s.lock.counts(s.files.lock()) {
		s.lock.release()
		var err error
		if s.lock, err = acquire(s.files); errors.Is(err, fs.ErrNotExist) {
			return nil // the directory is gone
		} else if err != nil {
			return fmt.Errorf("CDI spec %s not removed: %w", s.files.spec(), err)
		}
	}
	// The lock is given up before the other one is asked for: of two who leave at
	// once, the later one is alone.
	if err := s.lock.flock(syscall.LOCK_EX | syscall.LOCK_NB); errors.Is(err, syscall.EWOULDBLOCK) {
		return nil
	} else if err != nil {
		return fmt.Errorf("CDI spec %s not removed: %w", s.files.spec(), err)
	}
	return errors.Join(s.files.remove(), s.files.removeLeftovers(), os.Remove(s.files.lock()))
}

// acquire locks the lock file, and makes it if there is none. Who finds itself
// alone removes what killed writers left. One who is alone is waited for: that
// is so for as long as it takes to remove a few files, when it comes or leaves.
func acquire(f files) (*lock, error) {
	for {
		// For nobody else to open: a lock needs no more than that. And not for
		// writing: that would keep the file system from being made read-only.
		file, err := os.OpenFile(f.lock(), os.O_RDONLY|os.O_CREATE|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0o600)
		if err != nil {
			return nil, err
		}
		l := &lock{file}
		switch err = l.flock(syscall.LOCK_EX | syscall.LOCK_NB); {
		case errors.Is(err, syscall.EWOULDBLOCK):
			err = nil
		case err == nil && l.counts(f.lock()):
			err = f.removeLeftovers()
		}
		if err == nil {
			err = l.flock(syscall.LOCK_SH)
		}
		if err == nil && l.counts(f.lock()) {
			return l, nil
		}
		l.release()
		if err != nil {
			return nil, err
		}
		// The last one to leave has removed the file that we waited for.
	}
}

// flock locks as flock(2) says: LOCK_SH or LOCK_EX, with LOCK_NB to fail with
// EWOULDBLOCK instead of waiting.
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

// counts tells whether the file that we hold is the one that others will open.
func (l *lock) counts(path string) bool {
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
