package httpd_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"b-com.com/accelerator-device-plugin/internal/httpd"
	"b-com.com/accelerator-device-plugin/test/pipes"
)

const posted = "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\nhello"

// withBodies runs f with a server that reads a body, and takes answering for the answer. Its context ends when f
// calls stop.
func withBodies(t *testing.T, answering time.Duration, f func(t *testing.T, l *pipes.Listener, stop func())) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		l := pipes.Listen(10_000)
		ctx, cancel := context.WithCancel(t.Context())
		var server sync.WaitGroup
		server.Go(func() {
			if err := httpd.ServeBodies(ctx, l, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				text, err := io.ReadAll(r.Body)
				if err != nil {
					http.Error(w, err.Error(), http.StatusBadRequest)
					return
				}
				if !httpd.Complete(r) {
					return
				}
				time.Sleep(answering)
				fmt.Fprintf(w, "%s", text)
			}), zap.NewNop()); err != nil {
				t.Error(err)
			}
		})
		f(t, l, cancel)
		cancel()
		server.Wait()
	})
}

// echo reads an answer, and reports whether the connection stays open.
func (p *peer) echo(who string, within time.Duration) {
	p.t.Helper()
	p.SetReadDeadline(time.Now().Add(within))
	answer, err := http.ReadResponse(bufio.NewReader(p.Conn), nil)
	if err != nil {
		p.t.Errorf("%s: %v", who, err)
		return
	}
	defer answer.Body.Close()
	if text, err := io.ReadAll(answer.Body); err != nil || string(text) != "hello" || answer.Close {
		p.t.Errorf("%s: %q, %v, close %t, want hello and the connection open", who, text, err, answer.Close)
	}
}

// Clients that do not send their bodies do not keep others out, and an idle connection stays.
func TestBodiesThatDoNotCome(t *testing.T) {
	for name, sent := range map[string]string{"nothing": "", "half a header": posted[:20], "half a body": posted[:len(posted)-2]} {
		t.Run(name, func(t *testing.T) {
			withBodies(t, 0, func(t *testing.T, l *pipes.Listener, _ func()) {
				idle := dial(t, l, 1, posted)[0]
				idle.echo("the first", time.Nanosecond)
				const flood = 300
				all := dial(t, l, flood, sent)
				begin := time.Now()
				newest := dial(t, l, 1, posted)[0]
				newest.echo("the newest", time.Second)
				if took := time.Since(begin); took > 3*httpd.BodyPatience {
					t.Errorf("the newest was answered after %v, want %v at most", took, 3*httpd.BodyPatience)
				}
				if n := open(all); n > httpd.MaxBodyClients {
					t.Errorf("found %d open connections, want %d at most", n, httpd.MaxBodyClients)
				}
				idle.send(posted)
				idle.echo("the first, again", time.Nanosecond)
				for _, p := range append(all, idle, newest) {
					p.Close()
				}
			})
		})
	}
}

// If all connections are idle, the one that has been idle for longest is closed for a new one.
func TestIdleConnectionsMakeRoom(t *testing.T) {
	withBodies(t, 0, func(t *testing.T, l *pipes.Listener, _ func()) {
		all := dial(t, l, httpd.MaxBodyClients, posted)
		for i, p := range all {
			p.echo(fmt.Sprint("client ", i), time.Nanosecond)
		}
		time.Sleep(httpd.BodyPatience)
		newest := dial(t, l, 1, posted)[0]
		newest.echo("the newest", time.Nanosecond)
		if n := open(all); n != httpd.MaxBodyClients-1 {
			t.Errorf("found %d of the others open, want all but one", n)
		}
		newest.Close()
	})
}

// A body that does not come ends the request after five seconds.
func TestSlowBody(t *testing.T) {
	withBodies(t, 0, func(t *testing.T, l *pipes.Listener, _ func()) {
		begin := time.Now()
		slow := dial(t, l, 1, posted[:len(posted)-1])[0]
		slow.answered("the slow one", http.StatusBadRequest, time.Minute)
		if took := time.Since(begin); took < 5*time.Second || took > 6*time.Second {
			t.Errorf("answered and closed after %v, want 5s", took)
		}
	})
}

// The answer to a request that has begun is sent before the server ends.
func TestEndWaitsForAnswers(t *testing.T) {
	withBodies(t, 3*time.Second, func(t *testing.T, l *pipes.Listener, stop func()) {
		p := dial(t, l, 1, posted)[0]
		stop()
		p.SetReadDeadline(time.Now().Add(4 * time.Second))
		answer, err := http.ReadResponse(bufio.NewReader(p.Conn), nil)
		if err != nil || answer.StatusCode != http.StatusOK {
			t.Errorf("%v, %v, want an answer", answer, err)
		}
	})
}

// A flood of connections that are no HTTP or TLS does not flood the log.
func TestFewLines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		core, logs := observer.New(zap.DebugLevel)
		w := httpd.FewLines(zap.New(core))
		for range 3 {
			for range 100 {
				fmt.Fprintln(w, "a line")
			}
			time.Sleep(time.Second)
		}
		if n := logs.Len(); n != 30 || !strings.Contains(logs.All()[0].Message, "a line") {
			t.Errorf("%d lines, want ten a second", n)
		}
	})
}
