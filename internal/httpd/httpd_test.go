package httpd_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"syscall"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"b-com.com/accelerator-device-plugin/internal/httpd"
	"b-com.com/accelerator-device-plugin/test/compare"
	"b-com.com/accelerator-device-plugin/test/eventtest"
	"b-com.com/accelerator-device-plugin/test/must"
	"b-com.com/accelerator-device-plugin/test/task"
)

// serve runs the server until the test ends and returns its address.
func serve(t *testing.T, answers httpd.Answers) string {
	t.Helper()
	core, logs := eventtest.Observed(t)
	listening := make(chan struct{})
	log := zap.New(core, zap.Hooks(func(e zapcore.Entry) error {
		if e.Message == "http served" {
			close(listening)
		}
		return nil
	}))
	task.Run(t, func(ctx context.Context) error { return httpd.Run(ctx, "127.0.0.1:0", answers, log) })
	<-listening // the hook is called after the line is written to the core
	return "http://" + logs.FilterMessage("http served").All()[0].ContextMap()["address"].(string)
}

func get(t *testing.T, url string) (int, string) {
	t.Helper()
	answer := must.Value(http.Get(url))(t)
	defer answer.Body.Close()
	body := must.Value(io.ReadAll(answer.Body))(t)
	return answer.StatusCode, string(body)
}

func TestAnswers(t *testing.T) {
	var alive, ready error
	address := serve(t, httpd.Answers{
		Alive:   func(context.Context) error { return alive },
		Ready:   func(context.Context) error { return ready },
		Devices: func(context.Context) any { return []string{"3b:00.0"} },
		Metrics: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "devices 1") }),
	})
	expect := func(path string, code int, body string) {
		t.Helper()
		if c, b := get(t, address+path); c != code || b != body {
			t.Errorf("%s = %d %q, want %d %q", path, c, b, code, body)
		}
	}
	expect("/healthz", 200, "ok\n")
	expect("/readyz", 200, "ok\n")
	expect("/devices", 200, "[\n  \"3b:00.0\"\n]\n")
	expect("/", 404, "404 page not found\n")
	ready = errors.New("resource b-com.com/accelerator: no stream is open")
	expect("/readyz", 503, "resource b-com.com/accelerator: no stream is open\n")
	alive = errors.New("watcher of tree: stuck for 11s")
	expect("/healthz", 503, "watcher of tree: stuck for 11s\n")
	expect("/metrics", 200, "devices 1\n")
	answer := must.Value(http.Post(address+"/devices", "text/plain", nil))(t)
	answer.Body.Close()
	compare.Equal(t, "POST /devices", http.StatusMethodNotAllowed, answer.StatusCode)
}

// A loop that hangs is reported within a second.
func TestStuckLoopIsNotHealthy(t *testing.T) {
	stuck := func(ctx context.Context) error {
		<-ctx.Done()
		return context.Cause(ctx)
	}
	address := serve(t, httpd.Answers{Alive: stuck, Ready: stuck})
	for _, path := range []string{"/healthz", "/readyz"} {
		if code, body := get(t, address+path); code != 503 || body != "no answer within 1s\n" {
			t.Errorf("%s = %d %q, want 503", path, code, body)
		}
	}
}

// An address in use is logged. The daemon goes on without the HTTP server.
func TestAddressTaken(t *testing.T) {
	listener := must.Value(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer listener.Close()
	core, logs := eventtest.Observed(t)
	said := make(chan struct{})
	log := zap.New(core, zap.Hooks(func(zapcore.Entry) error { close(said); return nil }))
	end := task.Run(t, func(ctx context.Context) error { return httpd.Run(ctx, listener.Addr().String(), httpd.Answers{}, log) })
	<-said
	end()
	compare.Equal(t, "lines http.failed", 1, logs.FilterField(zap.String("event", "http.failed")).Len())
}

// A listener that fails later is logged and replaced. The daemon goes on.
func TestListenerThatFails(t *testing.T) {
	core, logs := eventtest.Observed(t)
	served := make(chan string, 10)
	log := zap.New(core, zap.Hooks(func(e zapcore.Entry) error { served <- e.Message; return nil }))
	task.Run(t, func(ctx context.Context) error {
		return httpd.RunRetrying(ctx, "127.0.0.1:0", httpd.Answers{Ready: func(context.Context) error { return nil }}, log, time.Millisecond)
	})
	for range 3 {
		if said := <-served; said != "http served" {
			t.Fatalf("log says %q, want http served", said)
		}
		lines := logs.FilterMessage("http served").All()
		address := lines[len(lines)-1].ContextMap()["address"].(string)
		if code, body := get(t, "http://"+address+"/readyz"); code != 200 {
			t.Fatalf("/readyz = %d %q, want 200", code, body)
		}
		shutListener(t, address)
		if said := <-served; said != "http address not served, trying again" {
			t.Fatalf("log says %q, want that the listener ended", said)
		}
	}
}

// shutListener makes the next Accept of our own listener fail.
func shutListener(t *testing.T, address string) {
	t.Helper()
	want := must.Value(net.ResolveTCPAddr("tcp", address))(t)
	for fd := range 1024 {
		listens, err := syscall.GetsockoptInt(fd, syscall.SOL_SOCKET, syscall.SO_ACCEPTCONN)
		if err != nil || listens == 0 {
			continue
		}
		if name, err := syscall.Getsockname(fd); err == nil {
			if in, ok := name.(*syscall.SockaddrInet4); ok && in.Port == want.Port {
				must.Succeed(t, syscall.Shutdown(fd, syscall.SHUT_RDWR))
				return
			}
		}
	}
	t.Fatalf("no listener on %s", address)
}

func TestHosts(t *testing.T) {
	const refused, answered = http.StatusMisdirectedRequest, http.StatusOK
	for _, test := range []struct {
		address, at, host string
		want              int
	}{
		{"127.0.0.1:9480", "127.0.0.1", "127.0.0.1:9480", answered},
		{"127.0.0.1:9480", "127.0.0.1", "127.0.0.1", answered},
		{"127.0.0.1:9480", "127.0.0.1", "127.1.2.3:1", answered}, // a tunnel has a port of its own
		{"127.0.0.1:9480", "127.0.0.1", "localhost:9480", answered},
		{"127.0.0.1:9480", "127.0.0.1", "LocalHost", answered},
		{"127.0.0.1:9480", "127.0.0.1", "[::1]:9480", answered},
		{"127.0.0.1:9480", "127.0.0.1", "[::1]", answered},
		{"127.0.0.1:9480", "127.0.0.1", "", answered},
		{"[::1]:9480", "::1", "localhost", answered},
		{"worker-1:9480", "127.0.1.1", "Worker-1:9480", answered},
		{"127.0.0.1:9480", "127.0.0.1", "worker-1:9480", refused},
		{"127.0.0.1:9480", "127.0.0.1", "attacker.example", refused},
		{"127.0.0.1:9480", "127.0.0.1", "attacker.example:9480", refused},
		{"127.0.0.1:9480", "127.0.0.1", "127.0.0.1.attacker.example:9480", refused},
		{"127.0.0.1:9480", "127.0.0.1", "localhost.attacker.example", refused},
		{"127.0.0.1:9480", "127.0.0.1", "10.0.0.7:9480", refused},
		{"127.0.0.1:9480", "127.0.0.1", "0.0.0.0:9480", refused},
		{"[::1]:9480", "::1", "attacker.example", refused},
		{":9480", "::", "10.0.0.7:9480", answered},
		{":9480", "::", "worker-1.example.com", answered},
		{"10.0.0.7:9480", "10.0.0.7", "attacker.example", answered},
	} {
		handler := httpd.LocalOnly(test.address, &net.TCPAddr{IP: net.ParseIP(test.at)}, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
		request := httptest.NewRequest(http.MethodGet, "/devices", nil)
		request.Host = test.host
		answer := httptest.NewRecorder()
		handler.ServeHTTP(answer, request)
		compare.Equal(t, fmt.Sprintf("host %q at %s (%s)", test.host, test.address, test.at), test.want, answer.Code)
	}
}
