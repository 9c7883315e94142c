package fpga

import (
	"context"
	"errors"

	"b-com.com/accelerator-device-plugin/programming"
)

// Programmer programs the cards of a node.
type Programmer struct {
	Host    Host
	LockDir string            // with a lock for each FME
	Store   programming.Store // in which an AOCX is unpacked
}

// Program programs a port of a card and returns when the port has the bitstream's AFU. It
// blocks until it has the lock of the FME, and ends with ctx. If the port has the AFU of a GBS
// already, it returns at once: another process was first. An AOCX is always programmed, since
// all AOCX have one AFU id.
//
// It refuses a port that another process has open, a bitstream for another interface, and a
// port that a failed programming has left disabled. An error names the card and the remedy, in
// one line.
func (p Programmer) Program(ctx context.Context, card Card, port Port, b *programming.Bitstream) error {
	return errors.ErrUnsupported
}

// Release takes the port with the number away from the physical function, so that a virtual
// function can have it. The driver refuses it while a process has the port open.
func (p Programmer) Release(ctx context.Context, card Card, number int) error {
	return errors.ErrUnsupported
}

// Assign gives a released port back to the physical function.
func (p Programmer) Assign(ctx context.Context, card Card, number int) error {
	return errors.ErrUnsupported
}
