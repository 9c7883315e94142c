package hook_test

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"b-com.com/accelerator-device-plugin/internal/logevent"
	"b-com.com/accelerator-device-plugin/programming/hook"
	"b-com.com/accelerator-device-plugin/test/compare"
	"b-com.com/accelerator-device-plugin/test/eventtest"
	"b-com.com/accelerator-device-plugin/test/must"
)

// listen serves a socket the way journald and syslog do. It uses a short directory name, because the length of socket
// paths is limited.
func listen(t *testing.T) (*net.UnixConn, string) {
	t.Helper()
	dir := must.Value(os.MkdirTemp("", "log"))(t)
	t.Cleanup(func() { os.RemoveAll(dir) })
	path := filepath.Join(dir, "log")
	server := must.Value(net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"}))(t)
	t.Cleanup(func() { server.Close() })
	return server, path
}

func logDone(socket, file string) {
	hook.NewLog(socket, file).Info("card programmed", logevent.ProgrammingDone, logevent.Device("3b:00.0"), logevent.AFU("a"), logevent.Interface("i"),
		logevent.Path("/store/i/a.gbs"), logevent.Lasted(1500*time.Millisecond), logevent.Container("c1"))
}

func TestLogToSocket(t *testing.T) {
	server, socket := listen(t)
	file := filepath.Join(t.TempDir(), "log")
	logDone(socket, file)
	hook.NewLog(socket, file).Error("programming failed", logevent.ProgrammingFailed, logevent.Err(errors.New("x\ny")), logevent.Lasted(0))
	for _, severity := range []int{6, 3} {
		buf := make([]byte, 8192)
		n := must.Value(server.Read(buf))(t)
		form := fmt.Sprintf(`^<%d>[A-Z][a-z]{2} [ 123]\d \d\d:\d\d:\d\d accelerator-fpga\[%d\]: `, 24+severity, os.Getpid())
		head := regexp.MustCompile(form).Find(buf[:n])
		if head == nil || bytes.ContainsRune(buf[:n], '\n') {
			t.Fatalf("%q, want %s before it, and no line break", buf[:n], form)
		}
		must.Succeed(t, eventtest.Line(buf[len(head):n]))
	}
	compare.Error(t, "file", "", compare.ErrorOf(os.Stat(file)))
}

// If whatever reads the socket has stalled, the line is written to the file without delay.
func TestLogStalledSocket(t *testing.T) {
	_, socket := listen(t)
	file := filepath.Join(t.TempDir(), "log")
	sent := 0
	for ; sent < 100_000; sent++ {
		logDone(socket, file)
		if _, err := os.Stat(file); err == nil {
			break
		}
	}
	text, err := os.ReadFile(file)
	if err != nil || bytes.Count(text, []byte("\n")) != 1 {
		t.Fatalf("after %d lines: %q, %v", sent, text, err)
	}
	must.Succeed(t, eventtest.Line(text))
}

func TestLogToFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "log")
	logDone("/none", file)
	logDone("/none", file)
	text := must.Value(os.ReadFile(file))(t)
	for l := range bytes.Lines(text) {
		must.Succeed(t, eventtest.Line(l))
	}
	if info, err := os.Stat(file); err != nil || info.Mode() != 0o600 || bytes.Count(text, []byte("\n")) != 2 {
		t.Errorf("%v, %v, %q", info.Mode(), err, text)
	}
}

// However many hooks there are, the log file and the old one don't grow beyond 1 MiB plus one line each.
func TestLogRotates(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	line := []byte(strings.Repeat("x", 1<<16-1) + "\n")
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 10 {
				compare.NoError(t, "AppendTo", hook.AppendTo(path, line))
			}
		})
	}
	wg.Wait()
	for _, name := range []string{path, path + ".1"} {
		text, err := os.ReadFile(name)
		if err != nil || len(text) == 0 || len(text) > 1<<20+len(line) || len(text)%len(line) != 0 {
			t.Errorf("%s: %d bytes, %v", name, len(text), err)
		}
	}
	if all, err := filepath.Glob(path + "*"); len(all) != 2 {
		t.Errorf("%q, %v", all, err)
	}
}

// /var/log may be group-writable, so the log isn't written if something other than a regular file is in its place.
func TestLogRefuses(t *testing.T) {
	dir := t.TempDir()
	victim := filepath.Join(dir, "victim")
	must.Succeed(t, os.WriteFile(victim, nil, 0o600))
	for name, place := range map[string]func(path string) error{
		"link":      func(path string) error { return os.Symlink(victim, path) },
		"hard link": func(path string) error { return os.Link(victim, path) },
		"directory": func(path string) error { return os.Mkdir(path, 0o755) },
		"FIFO":      func(path string) error { return syscall.Mkfifo(path, 0o600) },
		"FIFO with a reader": func(path string) error {
			if err := syscall.Mkfifo(path, 0o600); err != nil {
				return err
			}
			reader, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
			t.Cleanup(func() { reader.Close() })
			return err
		},
	} {
		path := filepath.Join(dir, strings.ReplaceAll(name, " ", "-"))
		must.Succeed(t, place(path))
		compare.Error(t, "AppendTo "+name, "", hook.AppendTo(path, []byte("x\n")))
	}
	if text, err := os.ReadFile(victim); err != nil || len(text) > 0 {
		t.Errorf("%q, %v", text, err)
	}
}
