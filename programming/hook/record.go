package hook

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"b-com.com/accelerator-device-plugin/internal/logevent"
)

// maxFile is the maximum size of a log file, in bytes. A file that has reached it is renamed to FILE.1, replacing any
// earlier FILE.1.
const maxFile = 1 << 20

// NewLog returns a logger that uses the daemon's format. It sends each line to socket, which belongs to the node's
// syslog or journal. A line that socket doesn't accept immediately is appended to file instead. Logging a line takes at
// most half a second. Lines that can't be written are dropped.
func NewLog(socket, file string) *zap.Logger {
	core := func(severity int, level zapcore.LevelEnabler) zapcore.Core {
		return zapcore.NewCore(zapcore.NewJSONEncoder(logevent.Keys()), sink{socket, file, severity}, level)
	}
	return zap.New(zapcore.NewTee(core(6, only(zapcore.InfoLevel)), core(3, only(zapcore.ErrorLevel)))).Named("hook")
}

type only zapcore.Level

func (o only) Enabled(l zapcore.Level) bool { return l == zapcore.Level(o) }

// sink writes lines with a given syslog severity.
type sink struct {
	socket, file string
	severity     int
}

func (s sink) Sync() error { return nil }

func (s sink) Write(line []byte) (int, error) {
	text := bytes.Clone(line)
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := s.send(text); err != nil {
			_ = appendTo(s.file, text) // if this fails too, the hook's error still ends up in the pod's event
		}
	}()
	select {
	case <-done:
	case <-time.After(500 * time.Millisecond): // the file system isn't responding
	}
	return len(line), nil
}

// send sends a line as a single datagram. It doesn't use package log/syslog, which would block if the reader stalled.
func (s sink) send(line []byte) error {
	fd, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_DGRAM|syscall.SOCK_NONBLOCK|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer syscall.Close(fd)
	const daemon = 3 << 3 // facility
	message := fmt.Appendf(nil, "<%d>%s accelerator-fpga[%d]: %s", daemon|s.severity, time.Now().Format(time.Stamp), os.Getpid(), bytes.TrimSuffix(line, []byte("\n")))
	return syscall.Sendto(fd, message, 0, &syscall.SockaddrUnix{Name: s.socket})
}

// appendTo appends a line to the file at path. It doesn't follow links and rejects files owned by other users, because
// /var/log may be group-writable.
func appendTo(path string, line []byte) error {
	for {
		file, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND|os.O_CREATE|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0o600)
		if err != nil {
			return err
		}
		rotated, err := appendOrRotate(file, path, line)
		file.Close()
		if err != nil || !rotated {
			return err
		}
	}
}

// appendOrRotate locks the file and then appends a line to it, or renames it if it is full. Closing the file releases
// the lock.
func appendOrRotate(file *os.File, path string, line []byte) (rotated bool, err error) {
	info, err := file.Stat()
	if err != nil {
		return false, err
	}
	st := info.Sys().(*syscall.Stat_t)
	if !info.Mode().IsRegular() || int(st.Uid) != os.Geteuid() || st.Nlink > 1 {
		return false, fmt.Errorf("%s: found mode %s, uid %d and %d links, want a regular file, uid %d and one link", path, info.Mode(), st.Uid, st.Nlink, os.Geteuid())
	}
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX); err != nil {
		return false, fmt.Errorf("lock %s: %w", path, err)
	}
	now, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) || err == nil && !os.SameFile(now, info) {
		return true, nil // another hook rotated the file after we opened it
	}
	if err != nil {
		return false, err
	}
	if now.Size() >= maxFile {
		return true, os.Rename(path, path+".1")
	}
	_, err = file.Write(line)
	return false, err
}
