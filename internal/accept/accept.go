// Package accept accepts connections through a shortage of descriptors or memory.
//
// Without it, net/http logs each accept(2) that fails, and both net/http and gRPC end
// the server when accept(2) fails with ENOMEM or ENOBUFS, though the shortage passes.
//
// The package owns no state. Accept blocks, as that of any listener does.
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

// Patiently returns a listener like l, whose Accept tries again for as long as the
// process or the node is out of descriptors or memory. After Close it returns within
// 50 ms.
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
