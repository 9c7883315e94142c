package privatedir

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"syscall"
	"time"
)

// Within calls f and returns f's error. If limit expires or ctx is done first (for example, because the file system
// hangs), Within returns an error of its own and leaves f running in its goroutine.
func Within(ctx context.Context, limit time.Duration, f func() error) error {
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("no answer within %s: the file system hangs", limit))
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- f() }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Turns calls functions the same way [Within] does, but only one at a time, so that a hanging file system ties up just
// one goroutine and its thread. Create it with [NewTurns].
type Turns struct {
	path  string                        // for errors
	turn  chan struct{}                 // full while a function is running
	runs  atomic.Pointer[chan struct{}] // closed when the newest function has returned
	hangs atomic.Pointer[chan struct{}] // like runs, but for the last function that exceeded its limit; nil if none has
}

// NewTurns returns Turns for functions that use the directory at path.
func NewTurns(path string) *Turns { return &Turns{path: path, turn: make(chan struct{}, 1)} }

// Within waits for its turn, calls f and returns f's error. If that takes longer than limit, or ctx is done first,
// Within returns its own error and cancels f's context, but f keeps running in its goroutine until it returns. If f
// exceeded the limit, all further calls fail immediately until f has returned.
func (t *Turns) Within(ctx context.Context, limit time.Duration, f func(context.Context) error) error {
	if hangs := t.hangs.Load(); hangs != nil {
		select {
		case <-*hangs:
		default:
			return t.noAnswer()
		}
	}
	late := t.noAnswer()
	ctx, cancel := context.WithTimeoutCause(ctx, limit, late)
	defer cancel()
	select {
	case t.turn <- struct{}{}:
	case <-ctx.Done():
		err := context.Cause(ctx)
		if errors.Is(err, late) { // the running function's caller may have given up before the limit
			t.hangs.Store(t.runs.Load())
		}
		return err
	}
	returned, done := make(chan struct{}), make(chan error, 1)
	t.runs.Store(&returned)
	go func() {
		defer func() { <-t.turn; close(returned) }()
		done <- f(ctx)
	}()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		err := context.Cause(ctx)
		if errors.Is(err, late) {
			t.hangs.Store(&returned)
		}
		return err
	}
}

func (t *Turns) noAnswer() error { return fmt.Errorf("%s: no answer: the file system hangs", t.path) }

// shared maps statfs(2) numbers to names, for file systems that several machines can use at once. The numbers come from
// include/uapi/linux/magic.h, the file systems' sources, and coreutils' src/stat.c. FUSE isn't included, because many
// FUSE file systems are local.
var shared = map[uint32]string{
	0x6969: "nfs", 0x517B: "smb", 0xFF534D42: "cifs", 0xFE534D42: "smb3", 0x00C36400: "ceph", 0x5346414F: "afs", 0x6B414653: "afs",
	0x73757245: "coda", 0x564C: "ncpfs", 0x01021997: "9p", 0x0BD00BD0: "lustre", 0x47504653: "gpfs", 0x19830326: "beegfs",
	0x7461636F: "ocfs2", 0x01161970: "gfs2", 0x20030528: "orangefs", 0xAAD7AAEA: "panfs", 0xBEEFDEAD: "snfs", 0x61636673: "acfs",
	0x18031977: "wekafs",
	// Directories that a virtual machine shares with its host.
	0x786F4256: "vboxsf", 0xBACBACBC: "vmhgfs", 0x7C7C6673: "prl_fs", 0x00C0FFEE: "hostfs",
}

// CheckLocal returns an error if dir is on a file system that other machines may also be using. Processes on those
// machines could hold locks or change files in dir, and such a file system hangs when the network does.
func CheckLocal(dir *os.Root) error {
	file, err := dir.Open(".")
	if err != nil {
		return PathError(dir.Name(), err)
	}
	defer file.Close()
	var at syscall.Statfs_t
	for err = syscall.EINTR; err == syscall.EINTR; {
		err = syscall.Fstatfs(int(file.Fd()), &at)
	}
	if err != nil {
		return PathError(dir.Name(), err)
	}
	return checkType(dir.Name(), int64(at.Type))
}

// checkType implements CheckLocal, given the file system's number from statfs(2).
func checkType(path string, number int64) error {
	if name := shared[uint32(number)]; name != "" {
		return fmt.Errorf("%s: found the network file system %s, want a local file system of this node, such as ext4, xfs or tmpfs", path, name)
	}
	return nil
}
