package control

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"sync/atomic"
	"syscall"

	"go.uber.org/zap"

	"b-com.com/accelerator-device-plugin/internal/logevent"
)

// listener accepts connections from root and from the user that this process runs as. It closes all other connections.
type listener struct {
	*net.UnixListener
	path    string
	made    fs.FileInfo // the socket
	log     *zap.Logger
	refused atomic.Bool
}

// listen listens on the socket, creating its directory if necessary. Because a killed daemon leaves its socket behind,
// listen replaces a socket that no process is serving. It returns an error if a process is serving the socket, or if
// the file at path isn't a socket.
func listen(ctx context.Context, path string, log *zap.Logger) (net.Listener, error) {
	if err := os.Mkdir(filepath.Dir(path), 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	if err := removeLeftover(ctx, path); err != nil {
		return nil, err
	}
	// bind(2) creates the file with the mode of the socket's file descriptor, so its mode is 0600 from the start.
	config := net.ListenConfig{Control: func(_, _ string, conn syscall.RawConn) (err error) {
		controlErr := conn.Control(func(fd uintptr) { err = syscall.Fchmod(int(fd), 0o600) })
		return errors.Join(controlErr, err)
	}}
	l, err := config.Listen(ctx, "unix", path)
	if err != nil {
		return nil, err
	}
	unix := l.(*net.UnixListener)
	unix.SetUnlinkOnClose(false) // it would also remove another daemon's socket at the same path
	made, err := os.Lstat(path)
	if err != nil {
		l.Close()
		return nil, err
	}
	return &listener{UnixListener: unix, path: path, made: made, log: log}, nil
}

func removeLeftover(ctx context.Context, path string) error {
	found, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case found.Mode().Type() != fs.ModeSocket:
		return fmt.Errorf("%s: found a file of mode %s, want a socket or nothing", path, found.Mode())
	}
	conn, err := new(net.Dialer).DialContext(ctx, "unix", path)
	switch {
	case err == nil:
		conn.Close()
		return fmt.Errorf("%s: found the socket of another running daemon, want none", path)
	case !errors.Is(err, syscall.ECONNREFUSED):
		return err
	}
	return os.Remove(path)
}

// Accept returns the next connection from an allowed user. It closes connections from other users.
func (l *listener) Accept() (net.Conn, error) {
	for {
		conn, err := l.AcceptUnix()
		if err != nil {
			return nil, err
		}
		err = checkPeer(conn)
		if err == nil {
			return conn, nil
		}
		conn.Close()
		if !l.refused.Swap(true) {
			l.log.Warn("connection refused", logevent.ControlRefused, logevent.Socket(l.path), logevent.Err(err))
		}
	}
}

// checkPeer returns an error unless the client's uid at the time it connected was 0 or the same as this process's.
func checkPeer(conn *net.UnixConn) error {
	raw, err := conn.SyscallConn()
	if err != nil {
		return err
	}
	var peer *syscall.Ucred
	controlErr := raw.Control(func(fd uintptr) {
		peer, err = syscall.GetsockoptUcred(int(fd), syscall.SOL_SOCKET, syscall.SO_PEERCRED)
	})
	if err = errors.Join(controlErr, err); err != nil {
		return fmt.Errorf("user of the connection: %w", err)
	}
	if own := os.Geteuid(); peer.Uid != 0 && int(peer.Uid) != own {
		return fmt.Errorf("found uid %d (process %d), want 0 or %d", peer.Uid, peer.Pid, own)
	}
	return nil
}

// Close stops listening and removes the socket, unless another daemon has replaced it.
func (l *listener) Close() error {
	if found, err := os.Lstat(l.path); err == nil && os.SameFile(found, l.made) {
		_ = os.Remove(l.path) // if this fails, the next daemon will replace the socket
	}
	return l.UnixListener.Close()
}
