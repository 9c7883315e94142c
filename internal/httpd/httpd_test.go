package httpd_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"syscall"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"b-com.com/accelerator-device-plugin/internal/httpd"
	"b-com.com/accelerator-device-plugin/test/compare"
	"b-com.com/accelerator-device-plugin/test/eventtest"
	"b-com.com/accelerator-device-plugin/test/must"
)

// serve runs the server until the test ends and returns its address.
func serve(t *testing.T, answers httpd.Answers) string {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	core, logs := eventtest.Observed(t)
	ended := make(chan error, 1)
	listening := make(chan struct{})
	log := zap.New(core, zap.Hooks(func(e zapcore.Entry) error {
		if e.Message == "http served" {
			close(listening)
		}
		return nil
	}))
	go func() { ended <- httpd.Run(ctx, "127.0.0.1:0", answers, log) }()
	t.Cleanup(func() {
		cancel()
		compare.NoError(t, fmt.Sprintf("Run, with the log %v", logs.All()), <-ended)
	})
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
	ctx, cancel := context.WithCancel(t.Context())
	core, logs := eventtest.Observed(t)
	said := make(chan struct{})
	log := zap.New(core, zap.Hooks(func(zapcore.Entry) error { close(said); return nil }))
	ended := make(chan error, 1)
	go func() { ended <- httpd.Run(ctx, listener.Addr().String(), httpd.Answers{}, log) }()
	<-said
	cancel()
	if err := <-ended; err != nil || logs.FilterField(zap.String("event", "http.failed")).Len() != 1 {
		t.Errorf("Run = %v, log %v; want nil and one http.failed", err, logs.All())
	}
}

// A listener that fails later is logged and replaced. The daemon goes on.
func TestListenerThatFails(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	core, logs := eventtest.Observed(t)
	served := make(chan string, 10)
	log := zap.New(core, zap.Hooks(func(e zapcore.Entry) error { served <- e.Message; return nil }))
	ended := make(chan error, 1)
	go func() {
		ended <- httpd.RunRetrying(ctx, "127.0.0.1:0", httpd.Answers{Ready: func(context.Context) error { return nil }}, log, time.Millisecond)
	}()
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
	cancel()
	compare.NoError(t, "Run", <-ended)
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
