package watcher

import (
	"bytes"
	"errors"
	"strconv"
)

// uevent is a message from the kernel (lib/kobject_uevent.c):
//
//	ACTION@DEVPATH NUL KEY=VALUE NUL KEY=VALUE NUL …
//
// The slices point into the message.
type uevent struct {
	action  []byte // from the header
	devpath []byte // from the header, without the sysfs mount point
	cut     bool   // the last variable doesn't end with NUL

	env struct {
		action, devpath, subsystem, seqnum []byte // always sent
		devname                            []byte // name of the device node, without /dev/
		errorEvent                         []byte // PCI error recovery: BEGIN_RECOVERY, …
		slotName                           []byte // PCI address; only for PCI devices
	}
}

// Errors for malformed messages. They are variables so that malformed messages don't cause allocations.
var (
	errNoEnd      = errors.New("uevent header: found no NUL")
	errHeader     = errors.New("uevent header: found no ACTION@, want ACTION@DEVPATH")
	errVariable   = errors.New("uevent variable: found no =, want KEY=VALUE")
	errCut        = errors.New("last uevent variable: found no NUL")
	errIncomplete = errors.New("uevent: ACTION, DEVPATH or SUBSYSTEM is missing")
	errMismatch   = errors.New("uevent: ACTION or DEVPATH differs from the header")
	errTruncated  = errors.New("uevent: longer than the buffer")
)

// parse parses a message. It accepts every message that go-udev's parser accepts, with the same result. It also accepts
// values that contain '=', paths that contain '@', and unknown actions. If a variable occurs twice, the last value is
// used. parse doesn't allocate.
func parse(raw []byte) (uevent, error) {
	end := bytes.IndexByte(raw, 0)
	if end < 0 {
		return uevent{}, errNoEnd
	}
	// The first '@' is the separator. An action never contains one, but a path may (soc@0).
	at := bytes.IndexByte(raw[:end], '@')
	if at < 1 {
		return uevent{}, errHeader
	}
	ev := uevent{action: raw[:at], devpath: raw[at+1 : end]}
	for rest := raw[end+1:]; len(rest) > 0; rest = rest[end+1:] {
		if end = bytes.IndexByte(rest, 0); end < 0 {
			ev.cut = true
			break
		}
		eq := bytes.IndexByte(rest[:end], '=')
		if eq < 0 {
			return uevent{}, errVariable
		}
		ev.set(rest[:eq], rest[eq+1:end])
	}
	return ev, nil
}

func (ev *uevent) set(key, value []byte) {
	switch string(key) {
	case "ACTION":
		ev.env.action = value
	case "DEVPATH":
		ev.env.devpath = value
	case "SUBSYSTEM":
		ev.env.subsystem = value
	case "SEQNUM":
		ev.env.seqnum = value
	case "DEVNAME":
		ev.env.devname = value
	case "ERROR_EVENT":
		ev.env.errorEvent = value
	case "PCI_SLOT_NAME":
		ev.env.slotName = value
	}
}

// check returns an error if the message can't have come from the kernel. The kernel always sends ACTION, DEVPATH and
// SUBSYSTEM, the first two with the same values as in the header, and terminates each variable with NUL.
func (ev *uevent) check() error {
	env := &ev.env
	switch {
	case ev.cut:
		return errCut
	case len(env.action) == 0 || len(env.devpath) == 0 || len(env.subsystem) == 0:
		return errIncomplete
	case !bytes.Equal(env.action, ev.action) || !bytes.Equal(env.devpath, ev.devpath):
		return errMismatch
	}
	return nil
}

// seqnum returns the event's sequence number, or 0 if there is none. Use it only for logging, because the kernel skips
// the numbers of events for other namespaces and may send events out of order.
func (ev *uevent) seqnum() uint64 {
	n, err := strconv.ParseUint(string(ev.env.seqnum), 10, 64)
	if err != nil {
		return 0
	}
	return n
}
