package main

import (
	"encoding/binary"
	"sync"
)

// ones is the value that reads from an absent or dead card return.
const ones = ^uint64(0)

// function is a PCI function.
type function struct {
	fme   bool
	ports []uint64 // the ports' offsets in BAR 0, by port number

	mu     sync.Mutex // guards the fields below
	config [256]byte
	bar    []byte // its length is a power of two
	dead   bool
	image  []byte // what has been written of a bitstream so far
	failPR bool   // whether the next programming fails when it finishes

	mailbox *mailbox // nil if the function doesn't have one
}

// newFunction returns a function in its reset state. several means that the slot has more than one function.
func newFunction(m functionModel, several bool) (*function, error) {
	f := &function{fme: m.fme != nil, bar: make([]byte, foreignBAR)}
	le := binary.LittleEndian
	vendor := m.vendor
	if vendor == 0 {
		vendor = 0x8086
	}
	le.PutUint16(f.config[0x00:], vendor)
	le.PutUint16(f.config[0x02:], m.device)
	le.PutUint16(f.config[0x0a:], 0x1200) // a processing accelerator
	if several {
		f.config[0x0e] = 0x80
	}
	le.PutUint16(f.config[0x2c:], vendor)
	le.PutUint16(f.config[0x2e:], m.subsystem)
	if f.fme || len(m.ports) > 0 {
		f.bar = make([]byte, barSize)
	}
	if m.xrt != nil {
		f.initXRT(m.xrt)
	}
	for i, p := range m.ports {
		var at uint64
		if f.fme {
			at = portAt + portStride*uint64(i)
		}
		f.ports = append(f.ports, at)
		if err := f.initPort(i, p); err != nil {
			return nil, err
		}
	}
	if f.fme {
		return f, f.initFME(m.fme, len(m.ports))
	}
	return f, nil
}

// readConfig reads n bytes, at most 8, from config space.
func (f *function) readConfig(at, n int) uint64 {
	if f.dead {
		return ones
	}
	var v uint64
	for i := range n {
		if at+i < len(f.config) {
			v |= uint64(f.config[at+i]) << (8 * i)
		}
	}
	return v
}

// writeConfig writes to the writable registers in config space: command, cache line size, interrupt line, and BAR 0's
// base address, whose low bits stay 0 to indicate the BAR's size. Writes to other registers are ignored.
func (f *function) writeConfig(at int, value uint32, n int) {
	if f.dead {
		return
	}
	for i := range min(n, 4) {
		at, b := at+i, byte(value>>(8*i))
		switch {
		case at == 0x04:
			f.config[at] = b & 0x46
		case at == 0x05:
			f.config[at] = b & 0x05
		case at == 0x0c, at == 0x3c:
			f.config[at] = b
		case at >= 0x10 && at < 0x14:
			mask := -uint32(len(f.bar))
			f.config[at] = b & byte(mask>>(8*(at-0x10)))
		}
	}
}

// base returns BAR 0's address.
func (f *function) base() uint64 { return uint64(binary.LittleEndian.Uint32(f.config[0x10:]) &^ 0xf) }

// inside reports whether n bytes lie within a register in BAR 0. The drivers never access more than one register at a
// time.
func (f *function) inside(at uint64, n int) bool {
	return at < uint64(len(f.bar)) && at&7+uint64(n) <= 8
}

// read reads n bytes, at most 8, from a register in BAR 0.
func (f *function) read(at uint64, n int) uint64 {
	if f.dead || !f.inside(at, n) {
		return ones
	}
	if f.mailbox != nil && at >= xrtMailbox && at < xrtMailbox+0x30 {
		return f.mailbox.read(at - xrtMailbox)
	}
	v := f.register(at&^7) >> (8 * (at & 7))
	if n < 8 {
		v &= 1<<(8*n) - 1
	}
	return v
}

// write writes n bytes, at most 8, to a register in BAR 0.
func (f *function) write(at, value uint64, n int) {
	if f.dead || !f.inside(at, n) {
		return
	}
	if f.mailbox != nil && at >= xrtMailbox && at < xrtMailbox+0x30 {
		f.mailbox.write(at-xrtMailbox, uint32(value))
		return
	}
	r := at &^ 7
	if n < 8 {
		shift := 8 * (at & 7)
		mask := (uint64(1)<<(8*n) - 1) << shift
		value = f.register(r)&^mask | value<<shift&mask
	}
	switch port, ok := f.portOf(r); {
	case ok:
		f.writePort(port, r-port, value)
	case f.fme && r < 0x70:
		// The header is read-only.
	case f.fme && r >= fmeErrors && r < fmePR:
		f.writeErrors(r, value)
	case f.fme && r >= fmePR && r < fmeEnd:
		f.writePR(r-fmePR, value)
	default:
		f.set(r, value)
	}
}

// portOf returns the offset of the port that register r belongs to.
func (f *function) portOf(r uint64) (at uint64, ok bool) {
	for _, port := range f.ports {
		if r >= port && r-port < portStride {
			return port, true
		}
	}
	return 0, false
}

func (f *function) writePort(port, r, value uint64) {
	switch {
	case r == portControl:
		f.set(port+r, acknowledged(value, portReset, portReady))
	case r == portStatus: // AP1 and AP2 events
		f.clear(port+r, value&(3<<12))
	case r == portErrors+0x10, r == portErrors+0x18:
		f.clear(port+r, value)
	case r < portControl:
		// The header is read-only.
	default:
		f.set(port+r, value)
	}
}

// acknowledged returns what a control register contains after value has been written to it. The card acknowledges a
// reset at once, so the ack bit is set if and only if the reset bit is.
func acknowledged(value, reset, ack uint64) uint64 {
	value &^= ack
	if value&reset != 0 {
		value |= ack
	}
	return value
}
