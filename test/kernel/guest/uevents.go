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

// uevent is a uevent from the kernel and the time when it was received.
type uevent struct {
	at      time.Time
	action  string
	devpath string
	message []byte
}

// uevents contains all uevents since boot. The goroutine that receives them ends with the machine.
type uevents struct {
	mu       sync.Mutex
	received []uevent
	taken    int // how many uevents take has returned
}

// listenUEvents starts receiving uevents. The receiving thread has real-time priority, so that it runs before all other
// listeners and the measured times don't start too late.
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
		u.receive(fd)
	}()
	return u, <-ready
}

func (u *uevents) receive(fd int) {
	buffer := make([]byte, 8192)
	for {
		n, from, err := unix.Recvfrom(fd, buffer, 0)
		now := time.Now()
		if sender, ok := from.(*unix.SockaddrNetlink); err != nil || !ok || sender.Pid != 0 {
			continue // an overflow shows up in the tables, and forged uevents come from the story itself
		}
		head, _, _ := bytes.Cut(buffer[:n], []byte{0})
		action, devpath, _ := strings.Cut(string(head), "@")
		u.mu.Lock()
		u.received = append(u.received, uevent{now, action, devpath, bytes.Clone(buffer[:n])})
		u.mu.Unlock()
	}
}

// first returns the time of the first uevent after a given time that has this action, belongs to this card or a device
// below it, and is about a device whose name starts with name.
func (u *uevents) first(after time.Time, action, card, name string) (time.Time, bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, e := range u.received {
		if e.at.After(after) && e.action == action && strings.Contains(e.devpath, "/"+card) &&
			strings.HasPrefix(filepath.Base(e.devpath), name) {
			return e.at, true
		}
	}
	return time.Time{}, false
}

// span returns the times of the first and last uevents after a given time that belong to this card or a device below
// it.
func (u *uevents) span(after time.Time, card string) (first, last time.Time, ok bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, e := range u.received {
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

// settle waits until no uevent has been received for 150 ms, or until ctx is done.
func (u *uevents) settle(ctx context.Context) {
	const silence = 150 * time.Millisecond
	begin := time.Now()
	for ctx.Err() == nil {
		u.mu.Lock()
		last := begin
		if n := len(u.received); n > 0 && u.received[n-1].at.After(begin) {
			last = u.received[n-1].at
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
