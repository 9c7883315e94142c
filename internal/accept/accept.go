// Package accept keeps a server running during a shortage of file descriptors or memory.
//
// Without it, net/http logs every failed accept(2), and both net/http and gRPC stop the server if accept(2) fails with
// ENOMEM or ENOBUFS, even though the shortage is temporary.
//
// The package owns no state. Accept blocks like any listener's Accept.
package accept

import (
	"errors"
	"net"
	"syscall"
	"time"

	"b-com.com/accelerator-device-plugin/internal/sysfs"
)

// retry is the time between attempts to accept a connection.
const retry = 50 * time.Millisecond

// WithRetries returns a listener that wraps l. Its Accept retries while the process or the node is out of file
// descriptors or memory, and returns within 50 ms of Close.
func WithRetries(l net.Listener) net.Listener { return retrying{l} }

type retrying struct{ net.Listener }

func (r retrying) Accept() (net.Conn, error) {
	for {
		conn, err := r.Listener.Accept()
		if !sysfs.IsShortage(err) && !errors.Is(err, syscall.ENOBUFS) {
			return conn, err
		}
		<-time.After(retry)
	}
}
