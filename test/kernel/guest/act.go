package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"b-com.com/accelerator-device-plugin/test/kernel/story"
)

// act executes a step that changes something.
func (r *rig) act(ctx context.Context, s story.Step) error {
	switch s.Verb {
	case "start", "end", "signal", "kubelet", "hold", "release":
		return r.actOnNode(ctx, s)
	case "rule":
		return addRule(configFile, s.Args[0], s.Args[1:])
	case "plug", "unplug", "host":
		request := strings.Join(s.Args, " ")
		if s.Verb != "host" {
			request = s.Verb + " " + request
		}
		_, err := r.host.ask(request)
		return err
	case "cycle":
		return r.cycle(s.Count(), s.Args[1:])
	case "measure":
		return r.measure(ctx, s.Count(), s.Args[1:])
	case "costs":
		return r.costs(ctx, s.Count(), s.Args[1:])
	case "random":
		return r.random(s.Count(), s.Args[1])
	case "forge":
		return forge(s.Args[0] == "through", s.Args[1])
	case "bitstream":
		return writeBitstream(bitstreamDir, s.Bitstream())
	case "tool", "container", "plugin":
		return r.run(ctx, s.Verb, "ok", s.Args)
	case "toolfails", "containerfails", "pluginfails":
		return r.run(ctx, strings.TrimSuffix(s.Verb, "fails"), "failed", s.Args)
	case "claims":
		return r.runClaims(s.Args[0])
	case "claim", "claimfails":
		return r.claim(ctx, s.Args, s.Verb == "claim")
	case "begin":
		return r.begin(s.Args[0], s.Args[1], s.Args[2:])
	case "kill":
		return r.kill(s.Args[0], len(s.Args) == 2)
	case "program":
		return r.startProgram(s.Args[0], s.Args[1], s.Port())
	case "bind", "unbind":
		switch {
		case len(s.Args) == 1:
			return write(driver(s.Args[0])+"/"+s.Verb, s.Args[0])
		case s.Verb == "bind":
			return r.bindTo(ctx, s.Args[0], s.Args[1])
		}
		return r.writeHeld(driver(s.Args[0])+"/unbind", s.Args[0])
	case "use":
		return r.use(s.Args[0], len(s.Args) == 2)
	case "leave":
		return r.leave(s.Args[0])
	case "vfs":
		path := pciDir(s.Args[0]) + "/sriov_numvfs"
		if len(s.Args) == 3 {
			return r.writeHeld(path, s.Args[1])
		}
		return r.opens.unrecorded(func() error { return write(path, s.Args[1]) })
	case "inject":
		return inject(s.Args[0], s.Args[1])
	case "release-port", "assign-port":
		return r.movePort(s.Verb, s.Args[0], s.Port())
	}
	return operate(s)
}

// actOnNode executes a step that changes the daemon, the kubelet or a pod.
func (r *rig) actOnNode(ctx context.Context, s story.Step) (err error) {
	switch s.Verb {
	case "start":
		if r.daemon != nil {
			return errors.New("the daemon is running already")
		}
		sandbox, flags := story.Sandbox(s.Args)
		r.daemon, err = startDaemon(ctx, sandbox, flags, r.journal)
		return err
	case "end", "signal":
		if r.daemon == nil {
			return errors.New("the daemon is not running")
		}
		if s.Verb == "signal" {
			return r.daemon.process.Process.Signal(unix.SignalNum("SIG" + s.Args[0]))
		}
		err, r.daemon = r.daemon.end(), nil
		return err
	case "kubelet":
		if s.Args[0] != "start" && r.kubelet != nil {
			r.kubelet.end()
			r.kubelet = nil
		}
		if s.Args[0] != "stop" && r.kubelet == nil {
			r.kubelet, err = startKubelet(r.ctx)
			if err == nil {
				r.pods.Join(r.kubelet.kubelet)
			}
		}
		return err
	case "hold":
		return r.hold(ctx, s.Args[0], s.Args[1])
	case "release":
		r.release(s.Args[0])
	}
	return nil
}

// operate executes a step of an administrator.
func operate(s story.Step) error {
	switch s.Verb {
	case "insmod":
		return insmod(modules(s.Args, true))
	case "rmmod":
		return rmmod(modules(s.Args, false))
	case "remove":
		return write("/sys/bus/pci/devices/"+s.Args[0]+"/remove", "1")
	case "enable":
		return write(pciDir(s.Args[0])+"/enable", "1")
	case "rescan":
		return write("/sys/bus/pci/rescan", "1")
	case "clear":
		return clearErrors(s.Args[0])
	case "write":
		return write(s.Args[0], s.Args[1])
	}
	return fmt.Errorf("%s: the verb is not implemented", s.Verb)
}

// startProgram starts to program a card in the background. programmed waits for the result.
func (r *rig) startProgram(fme, afu string, port int) error {
	f, err := r.opens.open(fme, 0)
	if err != nil {
		return err
	}
	go func() { r.program <- errors.Join(program(f, afu, uint32(port)), f.Close()) }()
	return nil
}

// programmed waits for the result of startProgram, and returns an error unless it is as
// wanted: "ok", or the name of an errno.
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

// movePort releases a port from the FME's physical function, or assigns it again.
func (r *rig) movePort(verb, fme string, port int) error {
	f, err := r.opens.open(fme, 0)
	if err != nil {
		return err
	}
	request := uintptr(portRelease)
	if verb == "assign-port" {
		request = portAssign
	}
	number := int32(port)
	return errors.Join(ioctl(f, request, unsafe.Pointer(&number)), f.Close())
}

// exclusive opens a node as OPAE does, with O_EXCL: the driver returns EBUSY if it is open already.
func (r *rig) exclusive(node string) error {
	f, err := r.opens.open(node, os.O_EXCL)
	if err != nil {
		return err
	}
	return f.Close()
}

// newest returns the newest lists that the kubelet has received, or nil if no kubelet runs.
func (r *rig) newest() lists {
	if r.kubelet == nil {
		return nil
	}
	return r.kubelet.newest()
}
