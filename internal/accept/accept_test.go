package accept_test

import (
	"net"
	"os"
	"syscall"
	"testing"
	"testing/synctest"

	"b-com.com/accelerator-device-plugin/internal/accept"
	"b-com.com/accelerator-device-plugin/test/compare"
)

// listener fails with these errors, in turn, and then has a connection.
type listener struct {
	net.Listener
	errs []error
}

func (l *listener) Accept() (net.Conn, error) {
	if len(l.errs) == 0 {
		conn, _ := net.Pipe()
		return conn, nil
	}
	err := l.errs[0]
	l.errs = l.errs[1:]
	return nil, &net.OpError{Op: "accept", Err: os.NewSyscallError("accept4", err)}
}

func TestPatiently(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &listener{errs: []error{syscall.EMFILE, syscall.ENFILE, syscall.ENOMEM, syscall.ENOBUFS}}
		conn, err := accept.WithRetries(l).Accept()
		if err != nil || len(l.errs) != 0 {
			t.Fatalf("Accept: %v with %d errors to come, want a connection after all of them", err, len(l.errs))
		}
		conn.Close()
	})
}

func TestOtherErrorsEndIt(t *testing.T) {
	for _, want := range []error{net.ErrClosed, syscall.EINVAL, syscall.ECONNABORTED} {
		l := accept.WithRetries(&listener{errs: []error{want}})
		compare.ErrorIs(t, "Accept", want, compare.ErrorOf(l.Accept()))
	}
}
