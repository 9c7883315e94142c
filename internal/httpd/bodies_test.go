package httpd_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"b-com.com/accelerator-device-plugin/internal/httpd"
	"b-com.com/accelerator-device-plugin/test/compare"
	"b-com.com/accelerator-device-plugin/test/pipes"
)

const posted = "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\nhello"

// from gives the connections of a listener addresses: those that a function returns for the number of the
// connection.
type from struct {
	net.Listener
	host     func(n int) string
	accepted int
}

type fromHost struct {
	net.Conn
	addr net.Addr
}

func (c fromHost) RemoteAddr() net.Addr { return c.addr }

func (f *from) Accept() (net.Conn, error) {
	conn, err := f.Listener.Accept()
	if err != nil {
		return nil, err
	}
	addr := &net.TCPAddr{IP: net.ParseIP(f.host(f.accepted)), Port: 1000 + f.accepted}
	f.accepted++
	return fromHost{conn, addr}, nil
}

// firstFromAnother returns addresses: the first connection has another address than all others.
func firstFromAnother(n int) string {
	if n == 0 {
		return "10.0.0.1"
	}
	return "10.0.0.2"
}

// around returns addresses: the first connection, and the connection after a flood, do not come from the address of the
// flood.
func around(flood int) func(n int) string {
	return func(n int) string { return firstFromAnother(n % (flood + 1)) }
}

// bodyServer returns a server that reads a body, and takes answering for the answer. The function host returns the
// address of the nth connection.
func bodyServer(answering time.Duration, host func(n int) string) func(context.Context, net.Listener) error {
	return func(ctx context.Context, l net.Listener) error {
		return httpd.ServeBodies(ctx, &from{Listener: l, host: host}, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
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
		}), zap.NewNop())
	}
}

// echo expects an answer with the body that was sent, after which the connection stays open.
func (p *peer) echo(who string, within time.Duration) {
	p.t.Helper()
	if answer, text := p.read(who, within); text != "hello" || answer.Close {
		p.t.Errorf("%s: %q, close %t, want hello and the connection open", who, text, answer.Close)
	}
}

// Clients that do not send their bodies do not keep others out, and an idle connection from another address stays.
func TestBodiesThatDoNotCome(t *testing.T) {
	for name, sent := range map[string]string{"nothing": "", "half a header": posted[:20], "half a body": posted[:len(posted)-2]} {
		t.Run(name, func(t *testing.T) {
			const flood = 300
			inBubble(t, bodyServer(0, around(flood)), func(t *testing.T, l *pipes.Listener) {
				idle := dial(t, l, 1, posted)[0]
				idle.echo("the first", time.Nanosecond)
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
	inBubble(t, bodyServer(0, func(int) string { return "10.0.0.1" }), func(t *testing.T, l *pipes.Listener) {
		all := dial(t, l, httpd.MaxBodyClients, posted)
		for i, p := range all {
			p.echo(fmt.Sprint("client ", i), time.Nanosecond)
			synctest.Wait() // until it is idle
		}
		time.Sleep(httpd.BodyPatience)
		newest := dial(t, l, 1, posted)[0]
		newest.echo("the newest", time.Nanosecond)
		if n := open(all[1:]); n != httpd.MaxBodyClients-1 || !all[0].isClosed() {
			t.Errorf("first closed %t, of the others open %d, want the first alone to be closed", all[0].isClosed(), n)
		}
		newest.Close()
	})
}

// A client that keeps many idle connections does not make all others share the last place.
func TestHoardedConnections(t *testing.T) {
	host := func(n int) string {
		if n < httpd.MaxBodyClients-1 {
			return "2001:db8::1"
		}
		return fmt.Sprintf("10.0.0.%d", n-httpd.MaxBodyClients+2)
	}
	inBubble(t, bodyServer(0, host), func(t *testing.T, l *pipes.Listener) {
		hoard := dial(t, l, httpd.MaxBodyClients-1, posted)
		for i, p := range hoard {
			p.echo(fmt.Sprint("hoard ", i), time.Nanosecond)
		}
		time.Sleep(httpd.BodyPatience)
		const others = 20
		slow := dial(t, l, others, "")
		compare.Equal(t, "open connections of several addresses", others, open(slow))
		for i, p := range slow {
			p.send(posted)
			p.echo(fmt.Sprint("address ", i), time.Nanosecond)
		}
		compare.Equal(t, "open connections of the hoard", httpd.MaxBodyClients-others, open(hoard))
		for _, p := range slow {
			p.Close()
		}
	})
}

// An address whose connections all wait for answers does not take the idle connection of another address, and does not
// keep others waiting. An address with few connections can still replace idle ones.
func TestOthersKeepTheirConnections(t *testing.T) {
	inBubble(t, bodyServer(time.Second, firstFromAnother), func(t *testing.T, l *pipes.Listener) {
		idle := dial(t, l, 1, posted)[0]
		idle.echo("the first", 2*time.Second)
		busy := dial(t, l, httpd.MaxBodyClients-1, posted)
		time.Sleep(httpd.BodyPatience)
		if refused := dial(t, l, 1, posted)[0]; !refused.isClosed() {
			t.Error("one more of the busy address: found it open, want it closed")
		}
		idle.send(posted)
		idle.echo("the first, again", 2*time.Second)
		for i, p := range busy {
			p.echo(fmt.Sprint("busy ", i), time.Nanosecond)
		}
	})
	inBubble(t, bodyServer(time.Second, func(n int) string { return fmt.Sprintf("10.0.0.%d", min(n, httpd.MaxBodyClients)) }), func(t *testing.T, l *pipes.Listener) {
		dial(t, l, httpd.MaxBodyClients, "")
		time.Sleep(httpd.BodyPatience)
		for i, p := range dial(t, l, httpd.MaxBodyClients/4, posted) {
			p.echo(fmt.Sprint("client ", i, " of one address"), 2*time.Second)
		}
	})
}

// Thousands of connections of one address do not delay those of another address that has or recently had a connection.
func TestFloodIsNotAwaited(t *testing.T) {
	const flood = 5000
	inBubble(t, bodyServer(0, around(200+flood)), func(t *testing.T, l *pipes.Listener) {
		first := dial(t, l, 1, posted)[0]
		first.echo("the first", time.Nanosecond)
		dial(t, l, 200, "")
		first.Close()
		dial(t, l, flood, "")
		dial(t, l, 1, posted)[0].echo("the newest", 2*httpd.BodyPatience)
	})
}

// A body that does not come ends the request after five seconds.
func TestSlowBody(t *testing.T) {
	inBubble(t, bodyServer(0, firstFromAnother), func(t *testing.T, l *pipes.Listener) {
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
	synctest.Test(t, func(t *testing.T) {
		l := pipes.Listen(1)
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- bodyServer(3*time.Second, firstFromAnother)(ctx, l) }()
		p := dial(t, l, 1, posted)[0]
		stop()
		answer, _ := p.read("the request", 4*time.Second)
		compare.Equal(t, "status", http.StatusOK, answer.StatusCode)
		compare.NoError(t, "server", <-ended)
	})
}

// A flood of connections that speak neither HTTP nor TLS does not flood the log.
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
