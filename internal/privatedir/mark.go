package privatedir

import (
	"errors"
	"syscall"
)

// fcntl(2) commands from include/uapi/asm-generic/fcntl.h that package syscall doesn't define.
const (
	getLock = 36 // F_OFD_GETLK
	setLock = 37 // F_OFD_SETLK
)

// Mark is a number between 1 and 2^62 that a holder of a shared lock attaches to the lock and that other holders can
// query. It is stored as a record lock on the open file (F_OFD_SETLK in fcntl(2)): the byte whose offset is the number
// is locked. So it doesn't take up any disk space, and disappears along with the lock, even if the process is killed.
// On local file systems, it doesn't interfere with a flock on the same file.
type Mark int64

// Mark attaches a mark to the lock.
func (l *Lock) Mark(m Mark) error {
	_, err := l.record(setLock, syscall.F_RDLCK, int64(m), 1)
	return err
}

// KeepMark removes all of the lock's marks except m.
func (l *Lock) KeepMark(m Mark) error {
	_, below := l.record(setLock, syscall.F_UNLCK, 0, int64(m))
	_, above := l.record(setLock, syscall.F_UNLCK, int64(m)+1, 0)
	return errors.Join(below, above)
}

// Marked reports whether any other holder of the lock has attached m (same), and whether any has attached a different
// mark (other).
func (l *Lock) Marked(m Mark) (same, other bool, err error) {
	same, err = l.record(getLock, syscall.F_WRLCK, int64(m), 1)
	below, err2 := l.record(getLock, syscall.F_WRLCK, 0, int64(m))
	above, err3 := l.record(getLock, syscall.F_WRLCK, int64(m)+1, 0)
	return same, below || above, errors.Join(err, err2, err3)
}

// record calls fcntl for a range of bytes. If length is 0, the range extends to the largest offset. For F_OFD_GETLK,
// found reports whether another open file has a conflicting lock in the range.
func (l *Lock) record(command int, kind int16, start, length int64) (found bool, err error) {
	r := syscall.Flock_t{Type: kind, Start: start, Len: length}
	if err := syscall.FcntlFlock(l.file.Fd(), command, &r); err != nil {
		return false, PathError(l.file.Name(), err)
	}
	return r.Type != syscall.F_UNLCK, nil
}

// Sole reports whether this process is the only one that has a lock on the file. The lock must be shared. Because
// converting a lock with flock(2) briefly releases it, the caller must make sure that no other process acquires an
// exclusive lock in the meantime. If there is an error, the lock may be lost.
func (l *Lock) Sole() (bool, error) {
	err := syscall.Flock(int(l.file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	sole := err == nil
	if errors.Is(err, syscall.EWOULDBLOCK) {
		err = nil
	}
	if err = errors.Join(err, syscall.Flock(int(l.file.Fd()), syscall.LOCK_SH|syscall.LOCK_NB)); err != nil {
		return false, PathError(l.file.Name(), err)
	}
	return sole, nil
}
