// Package accept lets a listener survive a shortage of descriptors or memory.
//
// Without it, net/http logs each accept(2) that fails, and both net/http and gRPC stop the server if accept(2) fails
// with ENOMEM or ENOBUFS, even though the shortage is temporary.
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

// retry is the time between two attempts.
const retry = 50 * time.Millisecond

// Patiently returns a listener that wraps l. Its Accept retries while the process or the node is out of descriptors or
// memory, and returns within 50 ms after Close.
func Patiently(l net.Listener) net.Listener { return patient{l} }

type patient struct{ net.Listener }

func (p patient) Accept() (net.Conn, error) {
	for {
		conn, err := p.Listener.Accept()
		if !sysfs.IsShortage(err) && !errors.Is(err, syscall.ENOBUFS) {
			return conn, err
		}
		<-time.After(retry)
	}
}
