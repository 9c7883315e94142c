package control_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"

	"b-com.com/accelerator-device-plugin/daemon/control"
	"b-com.com/accelerator-device-plugin/daemon/cordon"
	"b-com.com/accelerator-device-plugin/daemon/view"
	"b-com.com/accelerator-device-plugin/internal/latest"
	"b-com.com/accelerator-device-plugin/test/compare"
	"b-com.com/accelerator-device-plugin/test/must"
	"b-com.com/accelerator-device-plugin/test/pipes"
)

// rig is a daemon in a synctest bubble. Tests can change its devices and holders.
type rig struct {
	listener *pipes.Listener
	*control.Client
	changed latest.Signal // raised when the devices change
	mode    atomic.Value
	holder  atomic.Value
	asked   atomic.Int64 // number of calls to State
	stop    context.CancelFunc
}

func inBubble(t *testing.T, f func(t *testing.T, r *rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		listener := pipes.Listen(100)
		r := &rig{listener: listener, Client: control.DialWith("daemon.sock", listener.Dial), changed: latest.NewSignal()}
		r.mode.Store("single")
		r.holder.Store("")
		var ctx context.Context
		ctx, r.stop = context.WithCancel(t.Context())
		answers := control.Answers{Changed: r.changed.Next, State: func(context.Context) control.State {
			r.asked.Add(1)
			return control.State{Mode: r.mode.Load().(string), Devices: []view.Row{{ID: "3b:00.0", Holder: []string{r.holder.Load().(string)}}}}
		}}
		answers.Cordon = func(context.Context, []string, string, string, time.Duration) ([]cordon.Cordon, error) {
			time.Sleep(9 * time.Second)
			return cordons, nil
		}
		var server sync.WaitGroup
		server.Go(func() {
			listen := func(context.Context) (net.Listener, error) { return listener, nil }
			compare.NoError(t, "Run", control.RunOn(ctx, "daemon.sock", listen, answers, zap.NewNop()))
		})
		f(t, r)
		r.stop()
		server.Wait()
	})
}

// A cordon request can take a while: the server responds as long as the client is still waiting.
func TestSlowCordon(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		compare.Equal(t, "cordons", 1, len(must.Value(r.Cordon(t.Context(), []string{"3b:00.0"}, "jo", "fan", 0))(t)))
	})
}

// If another program responds, the response is limited in size and escaped.
func TestAnswerOfAnotherProgram(t *testing.T) {
	const ok = "HTTP/1.1 200 OK\r\n\r\n"
	for _, test := range []struct{ name, answer, want string }{
		{"endless", ok + `{"version": "` + strings.Repeat("x", 20<<20), "found more than 16777216 bytes, want at most 16777216"},
		{"no JSON", ok + "hello\n", "answer of the daemon: invalid character 'h'"},
		{"another type", ok + `{"pid":"x"}`, "answer of the daemon: json: cannot unmarshal string"},
		{"empty", ok, "daemon.sock: "},
		{"none", "", "daemon.sock: "},
		{"no HTTP", "nonsense\r\n\r\n", "daemon.sock: "},
		{"terminal codes", "HTTP/1.1 400 Bad Request\r\n\r\n\x1b[2Jyes", `daemon.sock: \x1b[2Jyes`},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := control.DialWith("daemon.sock", func(context.Context, string, string) (net.Conn, error) {
				ours, theirs := net.Pipe()
				go func() {
					defer theirs.Close()
					_, _ = theirs.Read(make([]byte, 4096))
					_, _ = io.WriteString(theirs, test.answer)
				}()
				return ours, nil
			})
			_, err := c.State(t.Context())
			for _, err := range []error{err, c.Watch(t.Context(), func(control.State) error { return nil })} {
				compare.Error(t, "error", test.want, err)
			}
		})
	}
}

// The first state is sent immediately, and another one with each change. A change of holders is sent within a second.
func TestWatch(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		begin := time.Now()
		var got []string
		ctx, cancel := context.WithCancel(t.Context())
		var client sync.WaitGroup
		client.Go(func() {
			err := r.Watch(ctx, func(s control.State) error {
				got = append(got, s.Mode+s.Devices[0].Holder[0]+" "+time.Since(begin).String())
				return nil
			})
			compare.NoError(t, "Watch after the end of its context", err)
		})
		time.Sleep(100 * time.Millisecond)
		r.mode.Store("af")
		r.changed.Raise()
		time.Sleep(100 * time.Millisecond)
		r.changed.Raise() // the state hasn't changed
		time.Sleep(100 * time.Millisecond)
		r.holder.Store(" ns/pod/main")
		time.Sleep(time.Second)
		asked := r.asked.Load()
		time.Sleep(time.Minute)
		if n := r.asked.Load() - asked; n > 60 {
			t.Errorf("the state was asked for %d times in a minute without changes, want 60 at most", n)
		}
		cancel()
		client.Wait()
		want := []string{"single 0s", "af 100ms", "af ns/pod/main 1.2s"}
		compare.Values(t, "states", want, got)
	})
}

// If the daemon exits, Watch returns an error. It also returns its function's error.
func TestWatchEnds(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		full := errors.New("disk full")
		compare.ErrorIs(t, "Watch", full, r.Watch(t.Context(), func(control.State) error { return full }))
		err := r.Watch(t.Context(), func(control.State) error { r.stop(); return nil })
		compare.Error(t, "Watch after the end of the daemon", "daemon.sock: connection closed by the daemon", err)
	})
}

// A client that doesn't read is disconnected 5 s after the next line.
func TestWatchUnread(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		conn, _ := r.listener.Dial(t.Context(), "", "")
		must.Value(io.WriteString(conn, "GET /watch HTTP/1.1\r\nHost: daemon\r\n\r\n"))(t)
		time.Sleep(5 * time.Second)
		synctest.Wait()
		if n, err := conn.Read(make([]byte, 1)); err != io.EOF {
			t.Errorf("read %d bytes, %v after 5 s, want the end of the connection", n, err)
		}
		compare.NoError(t, "State for another client", compare.ErrorOf(r.State(t.Context())))
	})
}

// There can be at most 16 clients, because each of them takes up memory in the daemon's container. A further client
// replaces the oldest one.
func TestWatchLimit(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		var clients sync.WaitGroup
		var closed [20]atomic.Bool
		watch := func(i int) (cancel func()) {
			ctx, cancel := context.WithCancel(t.Context())
			time.Sleep(time.Second)
			clients.Go(func() { closed[i].Store(r.Watch(ctx, func(control.State) error { return nil }) != nil) })
			time.Sleep(time.Second)
			return cancel
		}
		expect := func(want int) {
			t.Helper()
			synctest.Wait()
			for i := range closed {
				compare.Equal(t, fmt.Sprintf("client %d: closed by the daemon", i), i < want, closed[i].Load())
			}
		}
		for i := range 15 {
			watch(i)
		}
		watch(15)() // it disconnects right away
		watch(16)
		expect(0)
		watch(17)
		watch(18)
		expect(2)
		compare.NoError(t, "State", compare.ErrorOf(r.State(t.Context())))
		r.stop()
		clients.Wait()
	})
}

// A client isn't disconnected when nothing changes for a long time.
func TestWatchOfAQuietNode(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		states := make(chan control.State)
		ctx, cancel := context.WithCancel(t.Context())
		var client sync.WaitGroup
		client.Go(func() {
			compare.NoError(t, "Watch", r.Watch(ctx, func(s control.State) error { states <- s; return nil }))
		})
		<-states
		time.Sleep(time.Hour)
		r.mode.Store("af")
		r.changed.Raise()
		compare.Equal(t, "mode after an hour", "af", (<-states).Mode)
		cancel()
		client.Wait()
	})
}
