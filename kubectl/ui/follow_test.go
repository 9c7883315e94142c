package ui_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"b-com.com/accelerator-device-plugin/kubectl/fleet"
	"b-com.com/accelerator-device-plugin/kubectl/ui"
	"b-com.com/accelerator-device-plugin/test/compare"
	"b-com.com/accelerator-device-plugin/test/must"
	"b-com.com/accelerator-device-plugin/test/pipes"
)

// Nodes are followed while a page is open, and for 30 s after that. After an error, they are followed again.
func TestFollowsWhileOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		board := ui.NewBoard("lab")
		ctx, cancel := context.WithCancel(t.Context())
		var following, failing, ended atomic.Bool
		var begun atomic.Int64
		go func() {
			board.Follow(ctx, func(ctx context.Context, report func(fleet.Change)) error {
				begun.Add(1)
				if failing.Load() {
					return errors.New("no API server")
				}
				following.Store(true)
				defer func() { following.Store(false) }()
				report(fleet.Change{})
				report(change(t, "worker-1", state))
				<-ctx.Done()
				return nil
			})
			ended.Store(true)
		}()
		open := func() (closePage func()) {
			ctx, cancel := context.WithCancel(t.Context())
			go ui.Handler(board, host, token).ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(ctx, "GET", "http://"+host+"/SECRET/events", nil))
			return cancel
		}
		expect := func(when string, want bool) {
			t.Helper()
			synctest.Wait()
			compare.Equal(t, when+": followed", want, following.Load())
		}
		<-time.After(time.Hour)
		expect("before a page is open", false)
		first := open()
		expect("a page is open", true)
		second := open()
		first()
		<-time.After(time.Hour)
		expect("another one is open", true)
		second()
		<-time.After(29 * time.Second)
		expect("none is open since 29 s", true)
		third := open() // the page was loaded again
		<-time.After(time.Minute)
		expect("it was loaded again", true)
		compare.Equal(t, "times followed", 1, begun.Load())
		third()
		<-time.After(31 * time.Second)
		expect("none is open since 31 s", false)

		failing.Store(true)
		begun.Store(0)
		open()
		<-time.After(time.Minute)
		synctest.Wait()
		if n := begun.Load(); n < 5 || n > 20 {
			t.Errorf("followed %d times in a minute, want about every 5 s", n)
		}
		failing.Store(false)
		<-time.After(6 * time.Second)
		expect("the error is over", true)
		cancel()
		synctest.Wait()
		if !ended.Load() {
			t.Error("it goes on after its context has ended")
		}
	})
}

// Other users of the machine can connect to the address. Their connections are soon closed, and the page keeps working.
func TestStrangers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		listener := pipes.Listen(10)
		board := ui.NewBoard("lab")
		ctx, cancel := context.WithCancel(t.Context())
		var server sync.WaitGroup
		server.Go(func() {
			compare.NoError(t, "Serve", ui.Serve(ctx, listener, board, token))
		})
		dial := func(text string) *bufio.Reader {
			conn := must.Value(listener.Dial(t.Context(), "", ""))(t)
			must.Value(io.WriteString(conn, text))(t)
			conn.SetReadDeadline(time.Now().Add(time.Hour))
			return bufio.NewReader(conn)
		}
		get := func(path string) string {
			return "GET " + path + " HTTP/1.1\r\nHost: " + listener.Addr().String() + "\r\n"
		}
		for name, text := range map[string]string{
			"half a request": get("/"), "refused": get("/") + "\r\n", "half a body": get("/") + "Content-Length: 9\r\n\r\n",
		} {
			began := time.Now()
			if _, err := io.ReadAll(dial(text)); err != nil || time.Since(began) > 10*time.Second {
				t.Errorf("%s: error %v after %s, want that the connection is closed within 10s", name, err, time.Since(began))
			}
		}
		events := dial(get("/SECRET/events") + "\r\n")
		go func() {
			<-time.After(5 * time.Minute)
			board.Report(change(t, "worker-1", state))
		}()
		for line := ""; !strings.Contains(line, "worker-1"); {
			var err error
			if line, err = events.ReadString('\n'); err != nil {
				t.Fatalf("events: %v, want that they go on", err)
			}
		}
		cancel()
		server.Wait()
	})
}
