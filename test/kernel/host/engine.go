package main

import "encoding/binary"

// writeErrors writes a register of the FME's error feature.
func (f *function) writeErrors(r, value uint64) {
	switch r - fmeErrors {
	case 0x10, 0x20, 0x30, 0x38, 0x40, 0x50, 0x60:
		f.clear(r, value)
	case 0x68: // error injection: bits 0 and 1 inject catastrophic errors, bit 2 a non-fatal one
		f.set(r, value)
		f.set(fmeErrors+0x60, value&3<<10)
		f.set(fmeErrors+0x50, value>>2&1<<6)
	default:
		f.set(r, value)
	}
}

// writePR writes a partial reconfiguration register. The image that is written through these registers begins with the
// AFU's GUID (16 bytes).
func (f *function) writePR(r, value uint64) {
	switch r {
	case prControl:
		value = acknowledged(value, prReset, prResetAck)
		if value&prComplete != 0 {
			value &^= prStart | prComplete
			f.programmed(value >> 7 & 7)
		}
		f.set(fmePR+r, value)
	case prData:
		f.image = binary.LittleEndian.AppendUint32(f.image, uint32(value))
	case prError:
		f.clear(fmePR+r, value)
		f.set(fmePR+prStatus, prCredits)
	default:
		f.set(fmePR+r, value)
	}
}

// programmed finishes programming a port, which either gets the image's AFU or raises an error.
func (f *function) programmed(port uint64) {
	image := f.image
	f.image = nil
	if f.failPR {
		f.failPR = false
		f.raise(fmePR+prStatus, prBusy) // once programming has finished, this bit means that an error is pending
		f.raise(fmePR+prError, prOperationFailed)
		return
	}
	if len(image) >= 16 && port < uint64(len(f.ports)) {
		f.set(f.ports[port]+afuAt+0x10, binary.BigEndian.Uint64(image))
		f.set(f.ports[port]+afuAt+0x08, binary.BigEndian.Uint64(image[8:]))
	}
}
