package sysfs

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"syscall"
)

// MaxValue is the longest value of an attribute in bytes: sysfs gives a driver
// one page to fill.
const MaxValue = 4096

var errTooLong = fmt.Errorf("value is longer than %d bytes", MaxValue)

// Read returns the value of the attribute at path, without the newline that
// ends it. Recorded trees pad values to a page with NULs, some with a newline
// behind those: they are cut off too. NULs in the middle stay, for the parser to
// refuse.
//
// It opens, reads once and closes, about half of what os.ReadFile costs: that
// one asks for the size and registers with the poller. An attribute is never a
// link, so none is followed. Errors are *fs.PathError and wrap the errno:
// ENOENT, EISDIR, ELOOP for a link, whatever the driver answers, or a value
// that is too long.
func Read(path string) (string, error) {
	fd, err := open(path)
	if err != nil {
		return "", &fs.PathError{Op: "open", Path: path, Err: err}
	}
	var buf [MaxValue + 1]byte
	n, err := read(fd, buf[:])
	syscall.Close(fd) // nothing was written: its error says nothing about the value
	if err != nil {
		return "", &fs.PathError{Op: "read", Path: path, Err: err}
	}
	value := bytes.TrimRight(buf[:n], "\n\x00")
	if len(value) > MaxValue {
		return "", &fs.PathError{Op: "read", Path: path, Err: errTooLong}
	}
	return string(value), nil
}

// ReadFull fills p with the first bytes of the binary file at path, in one read
// of just that length: where each byte is an access to a device, no other is
// touched. Fewer bytes are an error (io.ErrUnexpectedEOF). Other errors are as
// for Read.
func ReadFull(path string, p []byte) error {
	fd, err := open(path)
	if err != nil {
		return &fs.PathError{Op: "open", Path: path, Err: err}
	}
	n, err := read(fd, p)
	syscall.Close(fd) // as in Read
	if err == nil && n < len(p) {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return &fs.PathError{Op: "read", Path: path, Err: err}
	}
	return nil
}

// ReadAs reads the attribute at path and parses its value. The error names the
// file, and where parsing failed what was found and what is allowed.
func ReadAs[T any](path string, parse func(string) (T, error)) (T, error) {
	var none T
	s, err := Read(path)
	if err != nil {
		return none, err
	}
	v, err := parse(s)
	if err != nil {
		return none, fmt.Errorf("%s: %w", path, err)
	}
	return v, nil
}

// Gone reports whether err means that the device is not there (any more): its
// entry does not exist, or it is just being removed. It returns false for an error that
// is also [OwnTrouble], which proves no absence.
func Gone(err error) bool {
	return (errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENODEV)) && !OwnTrouble(err)
}

// OwnTrouble reports whether err means that this process or the node is out of
// file descriptors or memory. Such an error is no finding about the file that was asked
// for, nor about the hardware behind it.
//
// ENOBUFS is not among these errors: sockets return it, files do not, and the code that
// opens sockets tries again after any error.
func OwnTrouble(err error) bool {
	return errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) || errors.Is(err, syscall.ENOMEM)
}

// open opens for reading. A signal may interrupt it where the file system does
// not restart, so EINTR is tried again here and in read and lstat.
func open(path string) (int, error) {
	for {
		fd, err := syscall.Open(path, syscall.O_RDONLY|syscall.O_CLOEXEC|syscall.O_NOFOLLOW, 0)
		if err != syscall.EINTR {
			return fd, err
		}
	}
}

func read(fd int, p []byte) (int, error) {
	for {
		n, err := syscall.Read(fd, p)
		if err != syscall.EINTR {
			return max(n, 0), err
		}
	}
}

func lstat(path string) (syscall.Stat_t, error) {
	for {
		var st syscall.Stat_t
		err := syscall.Lstat(path, &st)
		if err == nil {
			return st, nil
		}
		if err != syscall.EINTR {
			return st, &fs.PathError{Op: "lstat", Path: path, Err: err}
		}
	}
}
