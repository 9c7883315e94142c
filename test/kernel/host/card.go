package main

import (
	"encoding/binary"
	"sync"
)

// ones is what a read of a card that is not there answers.
const ones = ^uint64(0)

// card is one PCI function.
type card struct {
	name string
	fme  bool
	port uint64 // where it stands in BAR 0

	mu     sync.Mutex // guards what follows
	config [256]byte
	bar    [barSize]byte
	dead   bool
	image  []byte // what was written of a bitstream so far
	failPR bool   // the next programming fails at its end
}

func newCard(name string, m model) (*card, error) {
	c := &card{name: name, fme: m.fme}
	le := binary.LittleEndian
	le.PutUint16(c.config[0x00:], 0x8086)
	le.PutUint16(c.config[0x02:], m.device)
	le.PutUint16(c.config[0x0a:], 0x1200) // a processing accelerator
	le.PutUint16(c.config[0x2c:], 0x8086)
	le.PutUint16(c.config[0x2e:], m.subsystem)
	if m.fme {
		c.port = portAt
		if err := c.layFME(m); err != nil {
			return nil, err
		}
	}
	return c, c.layPort(m)
}

func (c *card) readConfig(at, n int) uint64 {
	if c.dead {
		return ones
	}
	var v uint64
	for i := range n {
		if at+i < len(c.config) {
			v |= uint64(c.config[at+i]) << (8 * i)
		}
	}
	return v
}

// writeConfig takes what is writable: command, cache line size, interrupt line and
// the base address of BAR 0, of which the size decides the lowest bits.
func (c *card) writeConfig(at int, value uint32, n int) {
	if c.dead {
		return
	}
	for i := range n {
		at, b := at+i, byte(value>>(8*i))
		switch {
		case at == 0x04:
			c.config[at] = b & 0x46
		case at == 0x05:
			c.config[at] = b & 0x05
		case at == 0x0c, at == 0x3c:
			c.config[at] = b
		case at >= 0x10 && at < 0x14:
			mask := ^uint32(barSize - 1)
			c.config[at] = b & byte(mask>>(8*(at-0x10)))
		}
	}
}

// base is the address of BAR 0.
func (c *card) base() uint64 { return uint64(binary.LittleEndian.Uint32(c.config[0x10:]) &^ 0xf) }

// read reads n bytes, at most 8, that lie in one register.
func (c *card) read(at uint64, n int) uint64 {
	if c.dead || at+8 > barSize {
		return ones
	}
	v := c.register(at&^7) >> (8 * (at & 7))
	if n < 8 {
		v &= 1<<(8*n) - 1
	}
	return v
}

// write writes n bytes, at most 8, that lie in one register.
func (c *card) write(at, value uint64, n int) {
	if c.dead || at+8 > barSize {
		return
	}
	r := at &^ 7
	if n < 8 {
		shift := 8 * (at & 7)
		mask := (uint64(1)<<(8*n) - 1) << shift
		value = c.register(r)&^mask | value<<shift&mask
	}
	switch {
	case r == c.port+portControl:
		c.set(r, acknowledged(value, portReset, portReady))
	case r == c.port+portStatus: // AP1 and AP2 events
		c.clear(r, value&(3<<12))
	case r == c.port+portErrors+0x10, r == c.port+portErrors+0x18:
		c.clear(r, value)
	case c.fme && r >= fmeErrors && r < fmePR:
		c.writeErrors(r, value)
	case c.fme && r >= fmePR && r < fmeHSSI:
		c.writePR(r-fmePR, value)
	case r < 0x38 && c.fme || r >= c.port && r < c.port+0x38:
		// Headers cannot be written.
	default:
		c.set(r, value)
	}
}

// acknowledged is a control register in which the reset is answered at once.
func acknowledged(value, reset, ack uint64) uint64 {
	value &^= ack
	if value&reset != 0 {
		value |= ack
	}
	return value
}

// clear is how errors are cleared: by writing ones.
func (c *card) clear(at, value uint64) { c.set(at, c.register(at)&^value) }

func (c *card) writeErrors(r, value uint64) {
	switch r - fmeErrors {
	case 0x10, 0x20, 0x30, 0x38, 0x40, 0x50, 0x60:
		c.clear(r, value)
	case 0x68: // injection of errors: they show up as catastrophic and non-fatal ones
		c.set(r, value)
		c.set(fmeErrors+0x60, value&3<<10)
		c.set(fmeErrors+0x50, value>>2&1<<6)
	default:
		c.set(r, value)
	}
}

// writePR is partial reconfiguration. The first 16 bytes of an image name the AFU
// that it is.
func (c *card) writePR(r, value uint64) {
	switch r {
	case prControl:
		value = acknowledged(value, prReset, prResetAck)
		if value&prComplete != 0 {
			value &^= prStart | prComplete
			c.programmed()
		}
		c.set(fmePR+r, value)
	case prData:
		c.image = binary.LittleEndian.AppendUint32(c.image, uint32(value))
	case prError:
		c.clear(fmePR+r, value)
		c.set(fmePR+prStatus, prCredits)
	default:
		c.set(fmePR+r, value)
	}
}

func (c *card) programmed() {
	image := c.image
	c.image = nil
	if c.failPR {
		c.failPR = false
		c.raise(fmePR+prStatus, prBusy) // "an error is pending", after the end
		c.raise(fmePR+prError, prOperationFailed)
		return
	}
	if len(image) >= 16 {
		c.set(c.port+afuAt+0x10, binary.BigEndian.Uint64(image))
		c.set(c.port+afuAt+0x08, binary.BigEndian.Uint64(image[8:]))
	}
}
