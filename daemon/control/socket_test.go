package control_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"b-com.com/accelerator-device-plugin/daemon/control"
	"b-com.com/accelerator-device-plugin/daemon/cordon"
	"b-com.com/accelerator-device-plugin/daemon/ledger"
	"b-com.com/accelerator-device-plugin/test/compare"
	"b-com.com/accelerator-device-plugin/test/eventtest"
	"b-com.com/accelerator-device-plugin/test/must"
	"b-com.com/accelerator-device-plugin/test/task"
)

// shortDir returns a directory that has a short path and is accessible to all users.
func shortDir(t *testing.T) string {
	t.Helper()
	dir := must.Value(os.MkdirTemp("", "adp"))(t)
	t.Cleanup(func() { os.RemoveAll(dir) })
	must.Succeed(t, os.Chmod(dir, 0o755))
	return dir
}

var cordons = []cordon.Cordon{{Device: "3b:00.0", By: "jo", Why: "fan", Since: time.Date(2026, 11, 22, 10, 22, 13, 0, time.UTC)}}

var missing = ledger.Missing{Card: "5e:00.0", Since: cordons[0].Since, Model: "8086:09c4:8086:0000"}

// serve serves a daemon's socket until the test ends.
func serve(t *testing.T, path string, answers control.Answers) *observer.ObservedLogs {
	t.Helper()
	core, logs := eventtest.Observed(t)
	task.Run(t, func(ctx context.Context) error { return control.Run(ctx, path, answers, zap.New(core)) })
	return logs
}

// await waits for an event in the log.
func await(t *testing.T, logs *observer.ObservedLogs, event string) string {
	t.Helper()
	for deadline := time.After(20 * time.Second); ; {
		if lines := logs.FilterField(zap.String("event", event)).All(); len(lines) > 0 {
			return fmt.Sprint(lines[0].ContextMap())
		}
		select {
		case <-deadline:
			t.Fatalf("no line %s: %v", event, logs.All())
		case <-time.After(time.Millisecond):
		}
	}
}

func state(context.Context) control.State {
	return control.State{Version: "1.0", PID: 7, Mode: "af", Cordons: cordons, Settings: control.Settings{Hash: "1f3a9c2b77aa"}}
}

func never() <-chan struct{} { return nil }

// The server receives the request's parameters, and the client receives the response.
func TestClient(t *testing.T) {
	path := filepath.Join(shortDir(t), "run", "daemon.sock")
	var asked []string
	logs := serve(t, path, control.Answers{
		State: state, Changed: never,
		Cordon: func(_ context.Context, devices []string, by, why string, during time.Duration) ([]cordon.Cordon, error) {
			asked = append(asked, fmt.Sprintf("cordon %q by %q, %q, for %s", devices, by, why, during))
			return cordons, nil
		},
		Uncordon: func(_ context.Context, devices []string, by string) ([]cordon.Cordon, error) {
			asked = append(asked, fmt.Sprintf("uncordon %q by %q", devices, by))
			return nil, errors.New("3b:00.0: not cordoned")
		},
		Forget: func(_ context.Context, card, by string) (ledger.Missing, error) {
			asked = append(asked, fmt.Sprintf("forget %q by %q", card, by))
			if card != "5e:00.0" {
				return ledger.Missing{}, errors.New("it is present")
			}
			return missing, nil
		},
	})
	await(t, logs, "control.served")
	c := control.Dial(path)
	compare.Values(t, "State", state(t.Context()), must.Value(c.State(t.Context()))(t))
	made := must.Value(c.Cordon(t.Context(), []string{"3b:00.0", "5e:00.0-p1"}, "jo&by=eve", "it's \"hot\"\n50% ü", 2*time.Hour))(t)
	compare.Values(t, "Cordon", cordons, made)
	compare.Error(t, "Uncordon", path+": 3b:00.0: not cordoned", compare.ErrorOf(c.Uncordon(t.Context(), []string{"3b:00.0"}, "jo")))
	compare.Values(t, "Forget", missing, must.Value(c.Forget(t.Context(), "5e:00.0", "jo"))(t))
	compare.Error(t, "Forget", path+": it is present", compare.ErrorOf(c.Forget(t.Context(), "3b:00.0", "jo")))
	want := []string{
		`cordon ["3b:00.0" "5e:00.0-p1"] by "jo&by=eve", "it's \"hot\"\n50% ü", for 2h0m0s`,
		`uncordon ["3b:00.0"] by "jo"`, `forget "5e:00.0" by "jo"`, `forget "3b:00.0" by "jo"`,
	}
	compare.Values(t, "daemon was asked", want, asked)
}

// Only the owner can open the socket, whatever the umask. The daemon removes it on exit, unless another process has
// replaced it.
func TestModes(t *testing.T) {
	defer syscall.Umask(syscall.Umask(0))
	dir := filepath.Join(shortDir(t), "run")
	path := filepath.Join(dir, "daemon.sock")
	l := must.Value(control.Listen(t.Context(), path, zap.NewNop()))(t)
	for file, want := range map[string]os.FileMode{dir: os.ModeDir | 0o700, path: os.ModeSocket | 0o600} {
		if info, err := os.Stat(file); err != nil || info.Mode() != want {
			t.Errorf("%s: %v, %v, want mode %s", file, info.Mode(), err, want)
		}
	}
	must.Succeed(t, os.Rename(path, path+".old"), os.WriteFile(path, nil, 0o600), l.Close())
	compare.NoError(t, "another file in the place of the socket after the end", compare.ErrorOf(os.Stat(path)))
	os.Remove(path)
	must.Value(control.Listen(t.Context(), path, zap.NewNop()))(t).Close()
	compare.ErrorIs(t, "socket after the end", os.ErrNotExist, compare.ErrorOf(os.Lstat(path)))
}

func TestListen(t *testing.T) {
	for _, test := range []struct {
		name    string
		prepare func(t *testing.T, path string)
		want    string // substring of the error; "": it listens
	}{
		{"nothing there", func(*testing.T, string) {}, ""},
		{"no directory above", func(t *testing.T, path string) { os.Remove(filepath.Dir(filepath.Dir(path))) }, "no such file or directory"},
		{"directory there", func(t *testing.T, path string) { mkdir(t, filepath.Dir(path)) }, ""},
		{"directory is a file", func(t *testing.T, path string) { write(t, filepath.Dir(path)) }, "not a directory"},
		{"leftover of a dead daemon", func(t *testing.T, path string) {
			mkdir(t, filepath.Dir(path))
			listenUnix(t, path).Close()
		}, ""},
		{"socket of a live daemon", func(t *testing.T, path string) {
			mkdir(t, filepath.Dir(path))
			l := listenUnix(t, path)
			t.Cleanup(func() { l.Close() })
		}, "found the socket of another running daemon"},
		{"file", func(t *testing.T, path string) { mkdir(t, filepath.Dir(path)); write(t, path) }, "found a file of mode -rw"},
		{"directory in its place", func(t *testing.T, path string) { mkdir(t, filepath.Dir(path)); mkdir(t, path) }, "found a file of mode drwx"},
		{"link to a socket", func(t *testing.T, path string) {
			mkdir(t, filepath.Dir(path))
			listenUnix(t, path+".other").Close()
			must.Succeed(t, os.Symlink(path+".other", path))
		}, "found a file of mode L"},
	} {
		t.Run(test.name, func(t *testing.T) {
			path := filepath.Join(shortDir(t), "run", "daemon.sock")
			test.prepare(t, path)
			before, _ := os.Lstat(path)
			l, err := control.Listen(t.Context(), path, zap.NewNop())
			if err == nil {
				l.Close()
			}
			if (test.want == "") != (err == nil) || err != nil && (!strings.Contains(err.Error(), test.want) || !strings.Contains(err.Error(), filepath.Dir(path))) {
				t.Fatalf("listen = %v, want %q and the path", err, test.want)
			}
			if after, _ := os.Lstat(path); err != nil && before != nil && (after == nil || !os.SameFile(before, after)) {
				t.Error("the file that was there is gone")
			}
		})
	}
	compare.Error(t, "path of 108 bytes", "", compare.ErrorOf(control.Listen(t.Context(), "/tmp/"+strings.Repeat("x", 103), zap.NewNop())))
}

func mkdir(t *testing.T, path string) {
	t.Helper()
	must.Succeed(t, os.Mkdir(path, 0o755))
}

func write(t *testing.T, path string) {
	t.Helper()
	must.Succeed(t, os.WriteFile(path, nil, 0o644))
}

// listenUnix returns a listener that leaves its socket behind when it is closed.
func listenUnix(t *testing.T, path string) *net.UnixListener {
	t.Helper()
	l := must.Value(net.ListenUnix("unix", &net.UnixAddr{Name: path}))(t)
	l.SetUnlinkOnClose(false)
	return l
}

// If the socket can't be served, that is logged once, and the daemon keeps trying.
func TestRunTriesAgain(t *testing.T) {
	path := filepath.Join(shortDir(t), "daemon.sock")
	l := listenUnix(t, path)
	logs := serve(t, path, control.Answers{State: state, Changed: never})
	compare.Contains(t, "control.failed", "--socket: "+path+": found the socket of another running daemon", await(t, logs, "control.failed"))
	l.Close() // the other daemon is killed
	await(t, logs, "control.served")
	compare.Equal(t, "PID of the second daemon", 7, must.Value(control.Dial(path).State(t.Context()))(t).PID)
	compare.Equal(t, "lines control.failed", 1, logs.FilterField(zap.String("event", "control.failed")).Len())
}

// connectAs connects as another user, from a separate thread, and returns what it reads.
func connectAs(uid int, path string) (answer string, err error) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // never unlocked: the thread exits along with the goroutine
		if _, _, errno := syscall.RawSyscall(syscall.SYS_SETRESUID, ^uintptr(0), uintptr(uid), ^uintptr(0)); errno != 0 {
			err = errno
			return
		}
		var fd int
		if fd, err = syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0); err != nil {
			return
		}
		defer syscall.Close(fd)
		if err = syscall.Connect(fd, &syscall.SockaddrUnix{Name: path}); err != nil {
			return
		}
		_, _ = syscall.Write(fd, []byte("GET /state HTTP/1.0\r\n\r\n")) // if this fails, there is no response
		b := make([]byte, 12)
		n, _ := syscall.Read(fd, b)
		answer = string(b[:max(n, 0)])
	}()
	<-done
	return answer, err
}

// Root and the daemon's own user can connect. Other users can't open the socket, and even if its permissions were
// changed, they would be rejected.
func TestAllowedUsers(t *testing.T) {
	path := filepath.Join(shortDir(t), "daemon.sock")
	logs := serve(t, path, control.Answers{State: state, Changed: never})
	await(t, logs, "control.served")
	compare.NoError(t, "own user", compare.ErrorOf(control.Dial(path).State(t.Context())))
	if os.Geteuid() != 0 {
		t.Skip("not root: no other user to connect as")
	}
	compare.ErrorIs(t, "another user", syscall.EACCES, compare.ErrorOf(connectAs(65534, path)))
	must.Succeed(t, os.Chmod(path, 0o666))
	for range 3 {
		compare.Equal(t, "answer to another user, at an open socket", "", must.Value(connectAs(65534, path))(t))
	}
	if line := await(t, logs, "control.refused"); !strings.Contains(line, "found uid 65534") || !strings.Contains(line, "want 0 or 0") {
		t.Errorf("control.refused: %s, want the uid", line)
	}
	compare.Equal(t, "lines control.refused", 1, logs.FilterField(zap.String("event", "control.refused")).Len())
	compare.NoError(t, "own user, afterwards", compare.ErrorOf(control.Dial(path).State(t.Context())))
	compare.Equal(t, "answer to root", "HTTP/1.0 200", must.Value(connectAs(0, path))(t))
}

// Invalid requests are rejected and don't change anything.
func TestGarbage(t *testing.T) {
	path := filepath.Join(shortDir(t), "daemon.sock")
	var mu sync.Mutex
	var cordoned []string
	await(t, serve(t, path, control.Answers{State: state, Changed: never,
		Cordon: func(_ context.Context, devices []string, _, _ string, _ time.Duration) ([]cordon.Cordon, error) {
			mu.Lock()
			defer mu.Unlock()
			cordoned = append(cordoned, devices...)
			return nil, nil
		},
	}), "control.served")
	for request, want := range map[string]string{
		"HELO\r\n\r\n": "400", "GET /nothing HTTP/1.0\r\n\r\n": "404", "POST /state HTTP/1.0\r\n\r\n": "405",
		"GET /cordon?device=3b:00.0&for=1h HTTP/1.0\r\n\r\n":                            "405",
		"POST /cordon?device=3b:00.0 HTTP/1.0\r\n\r\n":                                  "400",
		"POST /cordon?device=3b:00.0&for=soon HTTP/1.0\r\n\r\n":                         "400",
		"POST /cordon?device=3b:00.0&for=-1h HTTP/1.0\r\n\r\n":                          "400",
		"POST /cordon?for=1h HTTP/1.0\r\nContent-Length: 13\r\n\r\ndevice=3b:00.0":      "413",
		"POST /cordon?for=1h HTTP/1.1\r\nHost: d\r\nTransfer-Encoding: chunked\r\n\r\n": "413",
		"GET /state?" + strings.Repeat("x", 20_000) + " HTTP/1.0\r\n\r\n":               "431",
		"GET /state HTTP/1.0\r\n\r\n":                                                   "200",
	} {
		conn := must.Value(net.Dial("unix", path))(t)
		io.WriteString(conn, request) // if this fails, so does reading the response
		answer, err := bufio.NewReader(conn).ReadString('\n')
		conn.Close()
		if words := strings.Fields(answer); len(words) < 2 || words[1] != want {
			t.Errorf("%.70q is answered by %q, %v, want %s", request, answer, err, want)
		}
	}
	mu.Lock()
	defer mu.Unlock()
	if slices.Contains(cordoned, "3b:00.0") {
		t.Error("a refused request has cordoned 3b:00.0")
	}
}
