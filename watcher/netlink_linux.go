package watcher

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"github.com/pilebones/go-udev/netlink"
	"golang.org/x/sys/unix"
)

const (
	// A message consists of a header, whose path can't be longer than a page, and up to 2048 bytes of variables
	// (UEVENT_BUFFER_SIZE).
	messageSize = 8 << 10
	// The default buffer is too small: it holds about 256 small messages, but a card with 32 functions causes more. The
	// kernel doubles the size that we request.
	receiveBuffer = 4 << 20
	kernelGroup   = 1
)

// initialUserNS is the inode number of the initial user namespace (PROC_USER_INIT_INO in include/linux/proc_ns.h).
const initialUserNS = 0xEFFFFFFD

var errForeign = errors.New("the kernel sends no uevents to the network namespace of a user namespace: run the daemon in the " +
	"user namespace of the node (hostUsers: true)")

// foreign reports whether this process's network namespace belongs to a user namespace other than the initial one. The
// kernel doesn't send uevents to such a namespace (uevent_net_init in lib/kobject_uevent.c), even though sockets can be
// opened in it.
func foreign() bool {
	file, err := os.Open("/proc/self/ns/net")
	if err != nil {
		return false
	}
	defer file.Close()
	owner, err := unix.IoctlRetInt(int(file.Fd()), unix.NS_GET_USERNS)
	if err != nil {
		return false // EPERM: the network namespace belongs to a parent user namespace, such as the initial one
	}
	defer unix.Close(owner)
	var info unix.Stat_t
	return unix.Fstat(owner, &info) == nil && info.Ino != initialUserNS
}

var errMasked = errors.New("uevents of the kernel cannot be told from forged ones, because the user namespace of this process does not have " +
	"user 0 of the node: run the daemon in the user namespace of the node (hostUsers: true)")

// masked reports whether messages from the kernel arrive with a user id other than 0. This happens in a user namespace
// that doesn't map the initial namespace's user 0, even if the network namespace is the node's (a pod with hostNetwork:
// true and hostUsers: false). To find out, masked sends the kernel a no-op request and looks at the user id in its
// answer. If that fails, masked returns false.
func masked() bool {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, unix.NETLINK_ROUTE)
	defer unix.Close(fd)
	var request [unix.SizeofNlMsghdr]byte
	binary.NativeEndian.PutUint32(request[:], unix.SizeofNlMsghdr)
	binary.NativeEndian.PutUint16(request[4:], unix.NLMSG_NOOP)
	binary.NativeEndian.PutUint16(request[6:], unix.NLM_F_REQUEST|unix.NLM_F_ACK)
	if err == nil {
		err = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_PASSCRED, 1)
	}
	if err == nil {
		err = unix.Sendto(fd, request[:], 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK})
	}
	var buf, oob [256]byte
	var oobn int
	var from unix.Sockaddr
	if err == nil {
		_, oobn, _, from, err = unix.Recvmsg(fd, buf[:], oob[:], 0) // the answer is there by the time Sendto returns
	}
	s := newSender(from, oob[:oobn])
	return err == nil && s.known && s.port == 0 && s.uid != 0
}

// conn is the socket on which the kernel multicasts uevents. This is the only file that uses go-udev. It uses only
// go-udev's UEventConn, because go-udev's monitor can't be stopped and its parser panics.
type conn struct {
	file     *os.File
	raw      syscall.RawConn
	received int // the receive buffer's size, as the kernel counts it
	buf      [messageSize]byte
	oob      [256]byte
}

// message is the result of one recvmsg call. data is valid until the next call.
type message struct {
	data      []byte
	truncated bool
	sender    sender
}

func dial() (*conn, error) {
	var link netlink.UEventConn
	// Connect doesn't set close-on-exec, so hold ForkLock to prevent a fork before CloseOnExec sets it.
	syscall.ForkLock.RLock()
	err := link.Connect(netlink.KernelEvent)
	if err == nil {
		syscall.CloseOnExec(link.Fd)
	}
	syscall.ForkLock.RUnlock()
	if err != nil {
		return nil, fmt.Errorf("uevent socket: %w", err)
	}
	c, err := newConn(link.Fd)
	if err != nil {
		return nil, fmt.Errorf("uevent socket: %w", err)
	}
	return c, nil
}

// newConn returns a conn that owns fd. If newConn fails, it closes fd.
func newConn(fd int) (*conn, error) {
	size, err := prepare(fd)
	if err != nil {
		return nil, errors.Join(err, unix.Close(fd))
	}
	// Because fd is non-blocking, NewFile adds it to the poller, and a deadline or Close can interrupt a pending read.
	c := &conn{file: os.NewFile(uintptr(fd), "uevent"), received: size}
	if err := c.file.SetReadDeadline(time.Time{}); err != nil {
		return nil, errors.Join(err, c.close())
	}
	if c.raw, err = c.file.SyscallConn(); err != nil {
		return nil, errors.Join(err, c.close())
	}
	return c, nil
}

func prepare(fd int) (size int, err error) {
	if err := unix.SetNonblock(fd, true); err != nil {
		return 0, fmt.Errorf("O_NONBLOCK: %w", err)
	}
	if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_PASSCRED, 1); err != nil {
		return 0, fmt.Errorf("SO_PASSCRED: %w", err)
	}
	// Without CAP_NET_ADMIN, SO_RCVBUFFORCE fails, and rmem_max limits the size that SO_RCVBUF can set. A smaller
	// buffer isn't an error, but its size is logged.
	if unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, receiveBuffer) != nil {
		_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF, receiveBuffer)
	}
	size, err = unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF)
	if err != nil {
		return 0, fmt.Errorf("SO_RCVBUF: %w", err)
	}
	return size, nil
}

// receive waits for a message and returns it. If messages were lost, it returns ENOBUFS.
func (c *conn) receive() (message, error) { return c.read(true) }

// drain empties the queue and returns the number of messages that were in it. It must be called after an overflow,
// because the kernel drops all messages, without reporting another error, until the queue is empty.
func (c *conn) drain() (n int, err error) {
	for lost := false; ; {
		_, err := c.read(false)
		switch {
		case err == nil:
			n, lost = n+1, false
		case errors.Is(err, unix.EAGAIN):
			return n, nil
		case errors.Is(err, unix.ENOBUFS) && !lost:
			lost = true // the queue was emptied and has filled up again
		default:
			return n, err
		}
	}
}

func (c *conn) read(wait bool) (m message, err error) {
	closed := c.raw.Read(func(fd uintptr) bool {
		m, err = c.recvmsg(int(fd))
		return !wait || !errors.Is(err, unix.EAGAIN)
	})
	if closed != nil {
		return message{}, closed
	}
	return m, err
}

func (c *conn) recvmsg(fd int) (message, error) {
	for {
		n, oobn, flags, from, err := unix.Recvmsg(fd, c.buf[:], c.oob[:], 0)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return message{}, err
		}
		return message{data: c.buf[:n], truncated: flags&unix.MSG_TRUNC != 0, sender: newSender(from, c.oob[:oobn])}, nil
	}
}

// interrupt makes the current and all later calls to receive return immediately.
func (c *conn) interrupt() { _ = c.file.SetReadDeadline(time.Unix(1, 0)) }

func (c *conn) close() error { return c.file.Close() }

// sender identifies a message's sender. The kernel fills in these values, so the sender can't forge them.
type sender struct {
	port   uint32 // netlink port, 0 for the kernel
	groups uint32 // multicast groups
	known  bool   // the message has credentials (pid and uid)
	pid    uint32
	uid    uint32
}

func newSender(from unix.Sockaddr, oob []byte) sender {
	var s sender
	nl, ok := from.(*unix.SockaddrNetlink)
	if !ok {
		return s
	}
	s.port, s.groups = nl.Pid, nl.Groups
	for len(oob) >= unix.SizeofCmsghdr {
		header, data, rest, err := unix.ParseOneSocketControlMessage(oob)
		if err != nil {
			return s
		}
		if header.Level == unix.SOL_SOCKET && header.Type == unix.SCM_CREDENTIALS && len(data) >= unix.SizeofUcred {
			// struct ucred: pid, uid, gid.
			s.known = true
			s.pid, s.uid = binary.NativeEndian.Uint32(data), binary.NativeEndian.Uint32(data[4:])
		}
		oob = rest
	}
	return s
}

// kernel reports whether the kernel itself sent the message. It checks both the port and the credentials; see the
// package documentation.
func (s sender) kernel() bool {
	return s.port == 0 && s.groups == kernelGroup && s.known && s.pid == 0 && s.uid == 0
}
