package sysfs

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"syscall"
)

// MaxValue is the maximum length of an attribute's value in bytes: drivers fill at most one page.
const MaxValue = 4096

var errTooLong = fmt.Errorf("value is longer than %d bytes", MaxValue)

// Read returns the value of the attribute at path, without the trailing newline. In recorded trees, values are padded
// to a page with NULs, sometimes followed by a newline. Read removes this padding, but keeps NULs inside the value,
// because parsers reject those.
//
// Read opens the file, reads once and closes it. That takes about half as long as os.ReadFile, which also gets the size
// and registers with the poller. Read doesn't follow links, because an attribute is never a link. Errors are of type
// *fs.PathError, and either wrap an errno (ENOENT, EISDIR, ELOOP for a link, or any error from the driver) or say that
// the value is too long.
func Read(path string) (string, error) {
	fd, err := open(path)
	if err != nil {
		return "", &fs.PathError{Op: "open", Path: path, Err: err}
	}
	var buf [MaxValue + 1]byte
	n, err := read(fd, buf[:])
	syscall.Close(fd) // nothing was written, so an error here says nothing about the value
	if err != nil {
		return "", &fs.PathError{Op: "read", Path: path, Err: err}
	}
	value := bytes.TrimRight(buf[:n], "\n\x00")
	if len(value) > MaxValue {
		return "", &fs.PathError{Op: "read", Path: path, Err: errTooLong}
	}
	return string(value), nil
}

// ReadFull fills p with the first bytes of the binary file at path. It doesn't read more than len(p) bytes, because
// reading a byte may access a device. If the file is shorter, the error wraps io.ErrUnexpectedEOF. Other errors are the
// same as Read's.
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

// ReadAs reads the attribute at path and parses its value. The error contains the path and, if the value isn't valid,
// parse's error.
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

// Gone reports whether err means that the device doesn't exist (fs.ErrNotExist) or is being removed (ENODEV). It
// returns false if err is also a shortage ([IsShortage]), because a shortage doesn't prove that the device is gone.
func Gone(err error) bool {
	return (errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENODEV)) && !IsShortage(err)
}

// IsShortage reports whether err is a shortage: this process or the node is out of file descriptors or memory. Such an
// error says nothing about the file or the hardware behind it.
//
// ENOBUFS isn't one of these errors, because it is about sockets, not files, and the code that opens sockets retries
// after any error.
func IsShortage(err error) bool {
	return errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) || errors.Is(err, syscall.ENOMEM)
}

// open opens a file for reading. On some file systems, system calls that are interrupted by a signal aren't restarted,
// so open, read and lstat retry after EINTR.
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
