package privatedir

import (
	"errors"
	"syscall"
)

// Commands of fcntl(2), from include/uapi/asm-generic/fcntl.h, which the package syscall lacks.
const (
	getLock = 36 // F_OFD_GETLK
	setLock = 37 // F_OFD_SETLK
)

// Mark is a number that a holder of a shared lock attaches to the lock. The other holders can ask for it. It is a
// record lock of the open file (F_OFD_SETLK in fcntl(2)) on the byte at this offset. So it needs no space on the disk,
// and ends with the lock, even if the process is killed. On local file systems it does not interact with the flock of
// the same file. It must be from 1 to 2^62.
type Mark int64

// Mark adds a mark to the marks of this lock.
func (l *Lock) Mark(m Mark) error {
	_, err := l.record(setLock, syscall.F_RDLCK, int64(m), 1)
	return err
}

// KeepMark removes all marks of this lock except this one.
func (l *Lock) KeepMark(m Mark) error {
	_, below := l.record(setLock, syscall.F_UNLCK, 0, int64(m))
	_, above := l.record(setLock, syscall.F_UNLCK, int64(m)+1, 0)
	return errors.Join(below, above)
}

// Marked reports whether other holders of the lock have this mark, and whether they have any other one.
func (l *Lock) Marked(m Mark) (same, other bool, err error) {
	same, err = l.record(getLock, syscall.F_WRLCK, int64(m), 1)
	below, err2 := l.record(getLock, syscall.F_WRLCK, 0, int64(m))
	above, err3 := l.record(getLock, syscall.F_WRLCK, int64(m)+1, 0)
	return same, below || above, errors.Join(err, err2, err3)
}

// record calls fcntl for a range of bytes. A length of 0 extends it to the largest offset. found is the answer of
// F_OFD_GETLK: another open file has a lock in the range.
func (l *Lock) record(command int, kind int16, start, length int64) (found bool, err error) {
	r := syscall.Flock_t{Type: kind, Start: start, Len: length}
	if err := syscall.FcntlFlock(l.file.Fd(), command, &r); err != nil {
		return false, PathError(l.file.Name(), err)
	}
	return r.Type != syscall.F_UNLCK, nil
}

// Sole reports whether no other process has a lock on the file. The lock must be shared. flock(2) gives it up for a
// moment, so the caller must make sure that no other process takes an exclusive lock in that moment. After an error the
// lock may be lost.
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
