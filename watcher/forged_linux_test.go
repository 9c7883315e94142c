package watcher_test

import (
	"encoding/binary"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sys/unix"

	"b-com.com/accelerator-device-plugin/test/compare"
	"b-com.com/accelerator-device-plugin/test/must"
	"b-com.com/accelerator-device-plugin/watcher"
)

// kernelOOB returns a control message with these credentials.
func kernelOOB(pid, uid uint32) []byte {
	oob := make([]byte, unix.CmsgSpace(unix.SizeofUcred))
	copy(oob, unix.UnixCredentials(&unix.Ucred{Pid: int32(pid), Uid: uid}))
	return oob
}

func TestFromKernel(t *testing.T) {
	kernel := &unix.SockaddrNetlink{Family: unix.AF_NETLINK, Groups: 1}
	for _, tt := range []struct {
		name string
		from unix.Sockaddr
		oob  []byte
		want bool
	}{
		{"kernel", kernel, kernelOOB(0, 0), true},
		{"another control message before", kernel, append(unix.UnixRights(1), kernelOOB(0, 0)...), true},
		{"port of a process", &unix.SockaddrNetlink{Family: unix.AF_NETLINK, Groups: 1, Pid: 42}, kernelOOB(0, 0), false},
		{"unicast", &unix.SockaddrNetlink{Family: unix.AF_NETLINK}, kernelOOB(0, 0), false},
		{"group of udevd", &unix.SockaddrNetlink{Family: unix.AF_NETLINK, Groups: 2}, kernelOOB(0, 0), false},
		{"sent by a process", kernel, kernelOOB(42, 0), false},
		{"sent by a user", kernel, kernelOOB(0, 1000), false},
		{"no credentials", kernel, nil, false},
		{"cut credentials", kernel, kernelOOB(0, 0)[:unix.SizeofCmsghdr+4], false},
		{"garbage", kernel, make([]byte, 64), false},
		{"no address", nil, kernelOOB(0, 0), false},
		{"other family", &unix.SockaddrUnix{}, kernelOOB(0, 0), false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			compare.Equal(t, "FromKernel", tt.want, watcher.FromKernel(tt.from, tt.oob))
		})
	}
}

// forge sends a uevent from this process, either directly to the group or through the kernel, which passes it on to the
// group.
func forge(t *testing.T, raw []byte, through bool) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root can forge uevents")
	}
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_KOBJECT_UEVENT)
	must.Succeed(t, err)
	defer unix.Close(fd)
	to := &unix.SockaddrNetlink{Family: unix.AF_NETLINK, Groups: 1}
	if through {
		to.Groups = 0
		header := make([]byte, unix.SizeofNlMsghdr)
		binary.NativeEndian.PutUint32(header, uint32(len(header)+len(raw)))
		binary.NativeEndian.PutUint16(header[4:], unix.NLMSG_MIN_TYPE)
		binary.NativeEndian.PutUint16(header[6:], unix.NLM_F_REQUEST)
		raw = append(header, raw...)
	}
	// EPERM means that root lacks the capability, as in most containers.
	err = unix.Sendto(fd, raw, 0, to)
	if errors.Is(err, unix.EPERM) {
		t.Skip("not allowed to forge uevents")
	}
	must.Succeed(t, err)
}

func TestForged(t *testing.T) {
	for _, how := range []struct {
		name    string
		through bool
	}{{"multicast", false}, {"through the kernel", true}} {
		t.Run(how.name, func(t *testing.T) {
			h := listening(t)
			h.run(t)
			raw := []byte("add@/devices/pci0000:fe/0000:fe:00.0\x00ACTION=add\x00DEVPATH=/devices/pci0000:fe/0000:fe:00.0\x00SUBSYSTEM=pci\x00")
			for range 3 {
				forge(t, raw, how.through)
			}
			line := h.expectLine(t, zap.WarnLevel, "uevent.forged", nil)
			if how.through != (line["netlink_port"] == uint32(0)) || line["pid"] != int64(os.Getpid()) {
				t.Errorf("sender: %v", line)
			}
			provoke(t, memNull, "change "+uuid) // arrives after the forged ones
			expectUEvent(t, h, map[string]any{"devpath": "/devices/virtual/mem/null"})
			if h.any(func(hint watcher.Hint) bool { return strings.HasPrefix(hint.Card, "0000:fe:") }) {
				t.Errorf("found a hint for a forged uevent, want none")
			}
			compare.Equal(t, "warnings", 1, len(h.lines(zap.WarnLevel, "uevent.forged")))
		})
	}
}

// Each malformed kernel message causes a hint for everything, and each forged message is dropped. Each kind is logged
// at most once per minute, with the number of messages since the last warning.
func TestMalformedAndForgedAreLimited(t *testing.T) {
	h := listening(t)
	start := time.Now()
	for i, raw := range []string{"rubbish", "add@/x\x00", ""} {
		h.Receive([]byte(raw), false, 0, start.Add(time.Duration(i)*time.Second), h.hint)
		h.expect(t, watcher.Hint{Source: watcher.SourceMalformed})
	}
	h.Receive([]byte(pciAdd), true, 0, start.Add(time.Minute), h.hint)
	h.expect(t, watcher.Hint{Source: watcher.SourceMalformed})
	for i := range 61 {
		h.Receive([]byte("rubbish"), false, 42, start.Add(time.Duration(i)*time.Second), h.hint)
	}
	if h.any(func(watcher.Hint) bool { return true }) {
		t.Errorf("found a hint for a forged message, want none")
	}
	for event, want := range map[string][]map[string]any{
		"uevent.malformed": {
			{"count": int64(1), "bytes": int64(7)},
			{"count": int64(3), "bytes": int64(len(pciAdd)), "error": "uevent: longer than the buffer"},
		},
		"uevent.forged": {{"count": int64(1), "pid": int64(42)}, {"count": int64(60), "pid": int64(42)}},
	} {
		lines := h.lines(zap.WarnLevel, event)
		if len(lines) != len(want) {
			t.Fatalf("%s: %d lines, want %d", event, len(lines), len(want))
		}
		for i, line := range lines {
			if !contains(line.ContextMap(), want[i]) {
				t.Errorf("%s: line %d: %v, want %v", event, i, line.ContextMap(), want[i])
			}
		}
	}
}
