// Package sysfstest intercepts file accesses. It can make an access fail, for testing code that must handle a shortage
// of descriptors or memory, or change files right before an access.
//
// The package doesn't have any state. It doesn't need any privileges, but it does need Linux 5.5 or newer
// (SECCOMP_USER_NOTIF_FLAG_CONTINUE).
package sysfstest

import (
	"fmt"
	"runtime"
	"sync"
	"syscall"
	"testing"
	"unsafe"
)

// Refuse runs work and makes its nth file access, counted from 0, fail: open with EMFILE, and lstat, readlink, getdents
// and read with ENOMEM. If nth is negative, no access fails. Refuse waits for work to return, and returns the number of
// accesses.
//
// Accesses in goroutines that work starts aren't counted.
func Refuse(t testing.TB, nth int, work func()) (accesses int) {
	t.Helper()
	return supervised(t, work, func(n int, open bool) syscall.Errno {
		switch {
		case n != nth:
			return 0
		case open:
			return syscall.EMFILE
		}
		return syscall.ENOMEM
	})
}

// Fail is like Refuse, but the nth access fails with errno, as if a driver had returned that error.
func Fail(t testing.TB, nth int, errno syscall.Errno, work func()) (accesses int) {
	t.Helper()
	return supervised(t, work, func(n int, _ bool) syscall.Errno {
		if n == nth {
			return errno
		}
		return 0
	})
}

// Before runs work, and calls change before work's nth file access, counted from 0 as in Refuse. It waits for work to
// return, and returns the number of accesses.
func Before(t testing.TB, nth int, change, work func()) (accesses int) {
	t.Helper()
	once := sync.OnceFunc(change)
	return supervised(t, work, func(n int, _ bool) syscall.Errno {
		if n == nth {
			once()
		}
		return 0
	})
}

// supervised runs work. Before each of work's file accesses, it calls access with the number of the file access,
// counted from 0. If access returns an error, the file access fails with that error. A file access that a signal
// interrupts is repeated with the same number.
func supervised(t testing.TB, work func(), access func(n int, open bool) syscall.Errno) (accesses int) {
	t.Helper()
	type outcome struct {
		accesses int
		err      error
	}
	notifications, answered := make(chan int, 1), make(chan outcome, 1)
	go func() {
		fd, ok := <-notifications
		if !ok {
			answered <- outcome{}
			return
		}
		n, err := supervise(fd, access)
		syscall.Close(fd)
		answered <- outcome{n, err}
	}()
	refused := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // never unlocked, so that the thread, and the filter with it, ends with the goroutine
		fd, err := notify()
		if err != nil {
			close(notifications)
			refused <- err
			return
		}
		notifications <- fd
		work()
		syscall.Syscall(syscall.SYS_GETPPID, 0, 0, 0) // tells supervise that work has ended
		refused <- nil
	}()
	if err := <-refused; err != nil {
		t.Fatalf("seccomp notifications: %v", err)
	}
	all := <-answered
	if all.err != nil {
		t.Fatalf("seccomp notifications: %v", all.err)
	}
	return all.accesses
}

// Constants and structures from linux/seccomp.h and linux/filter.h.
const (
	setModeFilter   = 1
	flagNewListener = 1 << 3
	retUserNotif    = 0x7fc00000
	retAllow        = 0x7fff0000
	ioctlReceive    = 0xc0502100
	ioctlSend       = 0xc0182101
	flagContinue    = 1

	prSetNoNewPrivs = 38

	loadAbsolute = 0x20
	jumpIfEqual  = 0x15
	returnValue  = 0x06
)

type instruction struct {
	code   uint16
	ifTrue uint8
	_      uint8 // how far to jump if false
	k      uint32
}

type program struct {
	length       uint16
	instructions *instruction
}

type notification struct {
	id         uint64
	pid, flags uint32
	nr         int32
	arch       uint32
	ip         uint64
	args       [6]uint64
}

type response struct {
	id    uint64
	value int64
	err   int32
	flags uint32
}

// calls contains the numbers of the system calls to count, starting with open.
var calls = map[string][]uint32{
	"amd64": {257, 262, 267, 217, 0}, // openat, newfstatat, readlinkat, getdents64, read
	"arm64": {56, 79, 78, 61, 63},
}[runtime.GOARCH]

// notify makes the kernel send a notification before each of this thread's counted system calls. It returns the
// descriptor that receives the notifications.
func notify() (fd int, err error) {
	number, known := map[string]uintptr{"amd64": 317, "arm64": 277}[runtime.GOARCH] // seccomp
	if !known {
		return -1, fmt.Errorf("found architecture %s, want amd64 or arm64", runtime.GOARCH)
	}
	asked := append([]uint32{syscall.SYS_GETPPID}, calls...)
	filter := []instruction{{code: loadAbsolute}} // load the call's number
	for i, call := range asked {
		filter = append(filter, instruction{code: jumpIfEqual, ifTrue: uint8(len(asked) - i), k: call})
	}
	filter = append(filter, instruction{code: returnValue, k: retAllow}, instruction{code: returnValue, k: retUserNotif})
	if _, _, errno := syscall.RawSyscall6(syscall.SYS_PRCTL, prSetNoNewPrivs, 1, 0, 0, 0, 0); errno != 0 {
		return -1, errno
	}
	p := program{uint16(len(filter)), &filter[0]}
	r, _, errno := syscall.RawSyscall(number, setModeFilter, flagNewListener, uintptr(unsafe.Pointer(&p)))
	runtime.KeepAlive(filter)
	if errno != 0 {
		return -1, errno
	}
	return int(r), nil
}

// supervise answers notifications until work has ended, and returns the number of accesses. A call that a signal has
// interrupted (ENOENT, see seccomp_unotify(2)) is repeated.
func supervise(fd int, access func(n int, open bool) syscall.Errno) (accesses int, err error) {
	for {
		var n notification
		if err := ioctl(fd, ioctlReceive, unsafe.Pointer(&n)); err == syscall.ENOENT {
			continue
		} else if err != nil {
			return accesses, err
		}
		r := response{id: n.id, flags: flagContinue}
		ended := n.nr == syscall.SYS_GETPPID
		if !ended {
			if errno := access(accesses, uint32(n.nr) == calls[0]); errno != 0 {
				r.flags, r.err = 0, -int32(errno)
			}
		}
		if err := ioctl(fd, ioctlSend, unsafe.Pointer(&r)); err == syscall.ENOENT {
			continue
		} else if err != nil || ended {
			return accesses, err
		}
		accesses++
	}
}

func ioctl(fd int, request uintptr, arg unsafe.Pointer) error {
	for {
		_, _, errno := syscall.Syscall(syscall.SYS_IOCTL, uintptr(fd), request, uintptr(arg))
		switch errno {
		case 0:
			return nil
		case syscall.EINTR:
		default:
			return errno
		}
	}
}
