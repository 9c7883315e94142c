package httpd_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"

	"b-com.com/accelerator-device-plugin/internal/httpd"
	"b-com.com/accelerator-device-plugin/test/must"
	"b-com.com/accelerator-device-plugin/test/pipes"
	"b-com.com/accelerator-device-plugin/test/task"
)

const (
	complete = "GET /readyz HTTP/1.1\r\nHost: localhost\r\n\r\n"
	withBody = "GET /readyz HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\n"
)

// peer is the client's end of a connection.
type peer struct {
	t *testing.T
	net.Conn
}

// dial opens n connections that send text.
func dial(t *testing.T, l *pipes.Listener, n int, send string) []*peer {
	all := make([]*peer, n)
	for i := range all {
		conn := must.Value(l.Dial(t.Context(), "", ""))(t)
		all[i] = &peer{t, conn}
		all[i].send(send)
	}
	synctest.Wait()
	return all
}

// send does not block, because the server reads nothing before it accepts the connection.
func (p *peer) send(text string) {
	if text != "" {
		go io.WriteString(p.Conn, text)
	}
}

// read returns an answer and its body.
func (p *peer) read(who string, within time.Duration) (answer *http.Response, body string) {
	p.t.Helper()
	p.SetReadDeadline(time.Now().Add(within))
	answer, err := http.ReadResponse(bufio.NewReader(p.Conn), nil)
	if err != nil {
		p.t.Fatalf("%s: found %v, want an answer within %s", who, err, within)
	}
	defer answer.Body.Close()
	return answer, string(must.Value(io.ReadAll(answer.Body))(p.t))
}

// answered expects an answer within the time, after which the connection is closed.
func (p *peer) answered(who string, want int, within time.Duration) {
	p.t.Helper()
	if answer, _ := p.read(who, within); answer.StatusCode != want || !answer.Close {
		p.t.Errorf("%s: found %d, close %t, want %d and the connection closed", who, answer.StatusCode, answer.Close, want)
	}
}

// isClosed reports whether the server has closed the connection; it reads what was sent.
func (p *peer) isClosed() bool {
	p.SetReadDeadline(time.Now())
	_, err := io.Copy(io.Discard, p.Conn)
	return !errors.Is(err, os.ErrDeadlineExceeded)
}

func open(all []*peer) (n int) {
	for _, p := range all {
		if !p.isClosed() {
			n++
		}
	}
	return n
}

// inBubble runs f in a bubble with a server.
func inBubble(t *testing.T, serve func(context.Context, net.Listener) error, f func(t *testing.T, l *pipes.Listener)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		l := pipes.Listen(10_000)
		task.Run(t, func(ctx context.Context) error { return serve(ctx, l) })
		f(t, l)
	})
}

// server returns a server that takes answering for each answer.
func server(answering time.Duration) func(context.Context, net.Listener) error {
	return func(ctx context.Context, l net.Listener) error {
		_ = httpd.Serve(ctx, l, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			time.Sleep(answering)
			fmt.Fprintln(w, "ok")
		}), zap.NewNop()) // http.ErrServerClosed
		return nil
	}
}

// Ways in which a client can try to keep a connection.
func TestNewestClientIsServed(t *testing.T) {
	for name, sent := range map[string]string{
		"nothing":                      "",
		"a part of the header":         complete[:len(complete)-2],
		"a body that does not come":    withBody,
		"a request, answer never read": complete,
		"requests, answers never read": complete + complete + complete,
		"one that is none":             "HELO example.com\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, server(0), func(t *testing.T, l *pipes.Listener) {
				const flood = 300
				begin := time.Now()
				all := dial(t, l, flood, sent)
				probe := dial(t, l, 1, complete)[0]
				probe.answered("the newest", http.StatusOK, time.Second)
				if took, most := time.Since(begin), httpd.Patience*(flood/httpd.MaxClients+1); took > most {
					t.Errorf("the newest was answered after %s, want %s at most", took, most)
				}
				if n := open(all); n > httpd.MaxClients {
					t.Errorf("found %d open connections, want %d at most", n, httpd.MaxClients)
				}
				for _, p := range all {
					p.Close()
				}
			})
		})
	}
}

// A new connection closes the oldest one, and no other.
func TestOldestIsClosed(t *testing.T) {
	inBubble(t, server(0), func(t *testing.T, l *pipes.Listener) {
		all := dial(t, l, httpd.MaxClients, "")
		time.Sleep(time.Second)
		if n := open(all); n != httpd.MaxClients {
			t.Fatalf("found %d open connections after a second, want all %d", n, httpd.MaxClients)
		}
		dial(t, l, 1, complete)[0].answered("the newest", http.StatusOK, time.Nanosecond)
		if !all[0].isClosed() || open(all[1:]) != httpd.MaxClients-1 {
			t.Errorf("first closed %t, of the others open %d, want the first alone to be closed", all[0].isClosed(), open(all[1:]))
		}
	})
}

// A closed connection does not count.
func TestEndedConnectionsMakeRoom(t *testing.T) {
	inBubble(t, server(0), func(t *testing.T, l *pipes.Listener) {
		silent := dial(t, l, 1, "")[0]
		for i := range 2 * httpd.MaxClients {
			dial(t, l, 1, complete)[0].answered(fmt.Sprint("client ", i), http.StatusOK, time.Nanosecond)
		}
		time.Sleep(httpd.Patience)
		dial(t, l, 1, complete)[0].answered("the newest", http.StatusOK, time.Nanosecond)
		if silent.isClosed() {
			t.Error("found the only open connection closed, want it open")
		}
	})
}

// Many clients that send their requests at once are all answered.
func TestClientsHaveTimeToSend(t *testing.T) {
	inBubble(t, server(0), func(t *testing.T, l *pipes.Listener) {
		all := dial(t, l, 2*httpd.MaxClients, "")
		time.Sleep(httpd.Patience - time.Nanosecond)
		for _, p := range all {
			p.send(complete)
		}
		for i, p := range all {
			p.answered(fmt.Sprint("client ", i), http.StatusOK, httpd.Patience)
		}
	})
}

// A connection whose answer is being prepared is not closed: the next one waits.
func TestAnswersAreFinished(t *testing.T) {
	inBubble(t, server(time.Second), func(t *testing.T, l *pipes.Listener) {
		all := dial(t, l, httpd.MaxClients, complete)
		late := dial(t, l, 1, complete)[0]
		late.SetReadDeadline(time.Now().Add(time.Second - time.Nanosecond))
		if n, err := late.Read(make([]byte, 1)); n > 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("the newest read %d bytes, %v while all answers are being made, want a timeout", n, err)
		}
		for i, p := range all {
			p.answered(fmt.Sprint("client ", i), http.StatusOK, time.Millisecond)
		}
		late.answered("the newest", http.StatusOK, time.Second+2*httpd.Patience)
	})
}

// With fewer connections than the limit, a connection ends by its timeouts.
func TestTimeLimits(t *testing.T) {
	for _, test := range []struct {
		name, sent string
		limit      time.Duration
		answered   bool
	}{
		{"nothing", "", 2 * time.Second, false},
		{"a part of the header", complete[:len(complete)-2], 2 * time.Second, false},
		{"a missing body", withBody, 5 * time.Second, false},
		{"a missing body, answer read", withBody, 2 * time.Second, true},
		{"an answer that is not read", complete, 5 * time.Second, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			inBubble(t, server(0), func(t *testing.T, l *pipes.Listener) {
				client := dial(t, l, 1, test.sent)[0]
				if test.answered {
					client.answered("the client", http.StatusRequestEntityTooLarge, time.Nanosecond)
				}
				time.Sleep(test.limit)
				synctest.Wait()
				client.SetReadDeadline(time.Now().Add(time.Nanosecond))
				if text, err := io.ReadAll(client); len(text) != 0 || err != nil {
					t.Errorf("found %q, %v after %s, want a closed connection", text, err, test.limit)
				}
			})
		})
	}
}
