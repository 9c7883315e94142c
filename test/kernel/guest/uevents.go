package main

import (
	"bytes"
	"context"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// uevent is what the kernel said, and when we heard it.
type uevent struct {
	at      time.Time
	action  string
	devpath string
	message []byte
}

// uevents are those of the whole boot. The goroutine that hears them ends with the
// machine.
type uevents struct {
	mu    sync.Mutex
	heard []uevent
	taken int // so many were taken
}

// listenUEvents hears before everybody else: its thread has real-time priority, so
// that what we measure does not begin too late.
func listenUEvents() (*uevents, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, unix.NETLINK_KOBJECT_UEVENT)
	if err != nil {
		return nil, err
	}
	if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 8<<20); err != nil {
		return nil, err
	}
	if err := unix.Bind(fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK, Groups: 1}); err != nil {
		return nil, err
	}
	u := &uevents{}
	ready := make(chan error)
	go func() {
		runtime.LockOSThread()
		ready <- unix.SchedSetAttr(0, &unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: 1 /* SCHED_FIFO */, Priority: 50}, 0)
		u.hear(fd)
	}()
	return u, <-ready
}

func (u *uevents) hear(fd int) {
	buffer := make([]byte, 8192)
	for {
		n, from, err := unix.Recvfrom(fd, buffer, 0)
		now := time.Now()
		if sender, ok := from.(*unix.SockaddrNetlink); err != nil || !ok || sender.Pid != 0 {
			continue // an overflow shows in the table; a forged one is the story's
		}
		head, _, _ := bytes.Cut(buffer[:n], []byte{0})
		action, devpath, _ := strings.Cut(string(head), "@")
		u.mu.Lock()
		u.heard = append(u.heard, uevent{now, action, devpath, bytes.Clone(buffer[:n])})
		u.mu.Unlock()
	}
}

// of returns the first uevent after a moment that is of this action on a device of
// this card, or anything below it, whose name begins so; false when there is none.
func (u *uevents) first(after time.Time, action, card, name string) (time.Time, bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, e := range u.heard {
		if e.at.After(after) && e.action == action && strings.Contains(e.devpath, "/"+card) &&
			strings.HasPrefix(filepath.Base(e.devpath), name) {
			return e.at, true
		}
	}
	return time.Time{}, false
}

// span is when the first and the last uevent after a moment came that are of this
// card, or anything below it; false when there is none.
func (u *uevents) span(after time.Time, card string) (first, last time.Time, ok bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, e := range u.heard {
		if !e.at.After(after) || !strings.Contains(e.devpath, "/"+card) {
			continue
		}
		if !ok {
			first = e.at
		}
		last, ok = e.at, true
	}
	return first, last, ok
}

// settle returns when the kernel has said nothing for a while.
func (u *uevents) settle(ctx context.Context) {
	const silence = 150 * time.Millisecond
	begin := time.Now()
	for ctx.Err() == nil {
		u.mu.Lock()
		last := begin
		if n := len(u.heard); n > 0 && u.heard[n-1].at.After(begin) {
			last = u.heard[n-1].at
		}
		u.mu.Unlock()
		left := silence - time.Since(last)
		if left <= 0 {
			return
		}
		select {
		case <-ctx.Done():
		case <-time.After(left):
		}
	}
}
