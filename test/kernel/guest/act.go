package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// startProgram starts programming a card in the background. Call programmed to wait for the result.
func (r *rig) startProgram(fme, afu string, port []string) error {
	n := 0
	if len(port) > 0 {
		n = number(port)
	}
	f, err := r.opens.open(fme, 0)
	if err != nil {
		return err
	}
	go func() { r.program <- errors.Join(program(f, afu, uint32(n)), f.Close()) }()
	return nil
}

// programmed waits for startProgram's result. It returns an error unless the result is want, which is "ok" or the name
// of an errno.
func (r *rig) programmed(ctx context.Context, want string) error {
	select {
	case err := <-r.program:
		var errno syscall.Errno
		got := "ok"
		if errors.As(err, &errno) {
			got = unix.ErrnoName(errno)
		}
		if got != want {
			return fmt.Errorf("result: found %s (%v), want %s", got, err, want)
		}
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// movePort releases a port from the FME's physical function, or assigns it back.
func (r *rig) movePort(request uintptr, fme string, port int) error {
	f, err := r.opens.open(fme, 0)
	if err != nil {
		return err
	}
	number := int32(port)
	return errors.Join(ioctl(f, request, unsafe.Pointer(&number)), f.Close())
}

// exclusive opens a device node with O_EXCL, as OPAE does. The driver returns EBUSY if the device node is already open.
func (r *rig) exclusive(node string) error {
	f, err := r.opens.open(node, os.O_EXCL)
	if err != nil {
		return err
	}
	return f.Close()
}

// newest returns the latest device lists that the kubelet has received, or nil if no kubelet is running.
func (r *rig) newest() lists {
	if r.kubelet == nil {
		return nil
	}
	return r.kubelet.newest()
}
