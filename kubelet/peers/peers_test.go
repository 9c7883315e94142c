package peers_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/zap"

	"b-com.com/accelerator-device-plugin/internal/latest"
	"b-com.com/accelerator-device-plugin/kubelet/peers"
	"b-com.com/accelerator-device-plugin/test/cmdtest"
	"b-com.com/accelerator-device-plugin/test/compare"
	"b-com.com/accelerator-device-plugin/test/must"
	"b-com.com/accelerator-device-plugin/test/patient"
	"b-com.com/accelerator-device-plugin/test/task"
)

// other and others are the names of two sockets that belong to one peer.
const (
	other  = "accelerator-zzzzzzaaaaaaa.sock"
	others = "accelerator-zzzzzzbbbbbbb.sock"
)

type rig struct {
	*testing.T
	*peers.Peers
	dir     string
	made    time.Time // when this daemon's socket was created
	changed latest.Signal
}

func newRig(t *testing.T) *rig {
	r := &rig{T: t, dir: cmdtest.ShortDir(t), made: time.Now(), changed: latest.NewSignal()}
	r.Peers = peers.New(r.dir)
	task.Run(t, func(ctx context.Context) error { r.Peers.Run(ctx, r.changed, zap.NewNop()); return nil })
	return r
}

// listen creates a socket that accepts connections. Its file stays when the socket is closed.
func (r *rig) listen(name string) *net.UnixListener {
	r.Helper()
	l := must.Value(net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(r.dir, name), Net: "unix"}))(r)
	l.SetUnlinkOnClose(false)
	r.Cleanup(func() { _ = l.Close() })
	r.changed.Raise()
	return l
}

// accept blocks until Run has connected to this socket.
func (r *rig) accept(l net.Listener) net.Conn {
	r.Helper()
	return must.Value(l.Accept())(r)
}

func (r *rig) remove(name string) {
	r.Helper()
	must.Succeed(r, os.Remove(filepath.Join(r.dir, name)))
	r.changed.Raise()
}

// awaitGone waits until a peer is found to be gone, and reports whether that happened. If it isn't supposed to happen,
// awaitGone waits 800 ms, which is longer than the 500 ms that a peer may be without a socket.
func (r *rig) awaitGone(want bool) bool {
	r.Helper()
	during := patient.Limit
	if !want {
		during = 800 * time.Millisecond
	}
	limit := time.NewTimer(during)
	defer limit.Stop()
	for {
		gone, next := r.Gone(r.made)
		if gone {
			return true
		}
		select {
		case <-next:
		case <-limit.C:
			return false
		}
	}
}

func TestGone(t *testing.T) {
	for _, tc := range []struct {
		name string
		make func(r *rig)
		want bool
	}{
		{"killed, its socket is left", func(r *rig) {
			l := r.listen(other)
			conn := r.accept(l)
			_ = l.Close()
			_ = conn.Close()
		}, true},
		{"ended", func(r *rig) {
			l := r.listen(other)
			conn := r.accept(l)
			r.remove(other)
			_ = l.Close()
			_ = conn.Close()
		}, true},
		{"killed before Run found it", func(r *rig) { r.Created(filepath.Join(r.dir, other)); r.changed.Raise() }, true},
		{"socket of another plugin", func(r *rig) { r.Created(filepath.Join(r.dir, "accelerator-others.sock")); r.changed.Raise() }, false},
		{"own socket", func(r *rig) { r.Created(r.NewSocketPath()); r.changed.Raise() }, false},
		{"runs", func(r *rig) { r.accept(r.listen(other)) }, false},
		{"runs without its file", func(r *rig) { r.accept(r.listen(other)); r.remove(other) }, false},
		{"registers again", func(r *rig) {
			l := r.listen(other)
			conn := r.accept(l)
			r.remove(other)
			_ = l.Close()
			_ = conn.Close()
			r.accept(r.listen(others))
		}, false},
		{"registered a minute earlier", func(r *rig) {
			l := r.listen(other)
			r.made = r.made.Add(time.Minute)
			conn := r.accept(l)
			_ = l.Close()
			_ = conn.Close()
		}, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			tc.make(r)
			compare.Equal(t, "gone", tc.want, r.awaitGone(tc.want))
		})
	}
}

// If a peer is killed after this daemon has started, its leftover sockets are removed. Another daemon's sockets and
// other files stay.
func TestLeftoversOfKilledPeer(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	const starting = "accelerator-yyyyyyaaaaaaa.sock"
	l := r.listen("made") // Run doesn't look at files with other names, so it can't connect before the socket is closed
	_ = l.Close()
	must.Succeed(t, os.Rename(l.Addr().String(), filepath.Join(r.dir, starting))) // its daemon isn't listening yet
	var conns []net.Conn
	for _, name := range []string{other, others} {
		l := r.listen(name)
		conns = append(conns, r.accept(l))
		_ = l.Close()
	}
	for _, conn := range conns {
		_ = conn.Close()
	}
	patient.Await(t, "only the socket of the other daemon", func() error {
		if left := must.Value(filepath.Glob(r.dir + "/*"))(t); len(left) != 1 || filepath.Base(left[0]) != starting {
			return fmt.Errorf("found %v", left)
		}
		return nil
	})
}

// A registration made after the peer was gone isn't affected by the event.
func TestRegistrationAfterEvent(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.Created(filepath.Join(r.dir, other))
	r.changed.Raise()
	if !r.awaitGone(true) {
		t.Fatal("gone: false, want true")
	}
	if gone, _ := r.Gone(time.Now()); gone {
		t.Error("gone for a later registration: true, want false")
	}
}

// A peer that refuses connections counts as running until its socket is gone. (The test uses a different type of
// socket, because permissions don't apply to root.)
func TestRefuses(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	conn := must.Value(net.ListenUnixgram("unixgram", &net.UnixAddr{Name: filepath.Join(r.dir, other), Net: "unixgram"}))(t)
	defer conn.Close()
	r.changed.Raise()
	if r.awaitGone(false) {
		t.Error("gone while the socket exists: true, want false")
	}
	r.remove(other)
	if !r.awaitGone(true) {
		t.Error("gone after the socket was removed: false, want true")
	}
}

// A peer that closes every connection immediately isn't dialed again until minRedialInterval has passed.
func TestClosesConnections(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	l := r.listen(other)
	var calls atomic.Int32
	var answering sync.WaitGroup
	answering.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			calls.Add(1)
			_ = conn.Close()
		}
	})
	if r.awaitGone(false) {
		t.Error("gone while the socket accepts: true, want false")
	}
	_ = l.Close()
	answering.Wait()
	if n := calls.Load(); n < 2 || n > 12 {
		t.Errorf("%d calls in 600 ms, want 2 to 12", n)
	}
}

// With the longest allowed directory, the socket path is exactly as long as unix sockets allow.
func TestMaxDir(t *testing.T) {
	path := peers.New("/" + strings.Repeat("d", peers.MaxDir-1)).NewSocketPath()
	compare.Equal(t, "bytes of "+path, 107, len(path))
}

// The names of a daemon's sockets all start with the same letters, and the format is the same in all versions.
func TestNames(t *testing.T) {
	a := filepath.Base(peers.New("/").NewSocketPath())
	if len(a) != len(other) || !strings.HasPrefix(a, "accelerator-") || !strings.HasSuffix(a, ".sock") {
		t.Errorf("socket %s, want the form of %s", a, other)
	}
	p := peers.New("/")
	first, second := p.NewSocketPath(), p.NewSocketPath()
	if owner := len("/accelerator-") + 6; first == second || first[:owner] != second[:owner] {
		t.Errorf("sockets %s and %s, want different ones with six equal letters", first, second)
	}
}

func FuzzCreated(f *testing.F) {
	f.Add("/k/" + other)
	f.Add("accelerator-.sock")
	f.Add("")
	f.Fuzz(func(_ *testing.T, path string) { peers.New("/k").Created(path) })
}
