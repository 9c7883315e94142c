package main

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strconv"
)

// Offsets of a function's features in its BAR 0. The layout is our own, but the registers are those in
// drivers/fpga/dfl.h and in the dfl-fme and dfl-afu drivers.
const (
	barSize    = 1 << 20
	foreignBAR = 1 << 12 // size of BAR 0 in a function without features

	fmeThermal  = 0x1000
	fmePower    = 0x2000
	fmePerf     = 0x3000
	fmeErrors   = 0x4000
	fmePR       = 0x5000
	fmeEnd      = 0x6000  // end of the FME features whose registers are emulated
	portAt      = 0x40000 // first port; without an FME, the port is at 0
	portStride  = 0x60000 // distance between ports; there are at most two
	portErrors  = 0x1000  // relative to the port
	afuAt       = 0x20000 // relative to the port
	afuKiB      = 256
	portControl = 0x38
	portStatus  = 0x40
)

// Partial reconfiguration registers, relative to fmePR, and their bits.
const (
	prControl = 0x08
	prStatus  = 0x10
	prData    = 0x18
	prError   = 0x20

	prReset, prResetAck  = 1 << 0, 1 << 4
	prStart, prComplete  = 1 << 12, 1 << 13
	prCredits            = 256
	prBusy               = 1 << 16
	prOperationFailed    = 1 // in prError
	portReset, portReady = 1 << 0, 1 << 4
)

// register returns the register at an offset in BAR 0. The offset must be a multiple of 8.
func (f *function) register(at uint64) uint64     { return binary.LittleEndian.Uint64(f.bar[at:]) }
func (f *function) set(at uint64, value uint64)   { binary.LittleEndian.PutUint64(f.bar[at:], value) }
func (f *function) raise(at uint64, value uint64) { f.set(at, f.register(at)|value) }

// clear clears the bits in a register that are set in value.
func (f *function) clear(at, value uint64) { f.set(at, f.register(at)&^value) }

// setGUID stores a GUID with its low half first. guid consists of 32 hexadecimal digits.
func (f *function) setGUID(at uint64, guid string) error {
	if len(guid) != 32 {
		return fmt.Errorf("GUID: found %q, want 32 hexadecimal digits", guid)
	}
	high, err := strconv.ParseUint(guid[:16], 16, 64)
	if err != nil {
		return err
	}
	low, err := strconv.ParseUint(guid[16:], 16, 64)
	if err != nil {
		return err
	}
	f.set(at, low)
	f.set(at+8, high)
	return nil
}

// Types of device feature headers.
const (
	afuHeader     = 1
	featureHeader = 3
	fiuHeader     = 4
)

// header returns a device feature header. next is the distance to the next header, or 0 in the last one.
func header(kind, id, revision, next uint64) uint64 {
	v := kind<<60 | id&0xfff | revision&0xf<<12 | next&0xffffff<<16
	if next == 0 {
		v |= 1 << 40
	}
	return v
}

// writeHeaders writes the header of an FME (id 0) or of a port (id 1), and the headers of its features. Each header
// points to the next one.
func (f *function) writeHeaders(at, id, revision uint64, features []feature) {
	f.set(at, header(fiuHeader, id, revision, features[0].at))
	for i, x := range features {
		var next uint64
		if i+1 < len(features) {
			next = features[i+1].at - x.at
		}
		f.set(at+x.at, header(featureHeader, x.id, x.revision, next))
	}
}

func (f *function) initFME(m *fmeModel, ports int) error {
	f.writeHeaders(0, 0, 0, m.features)
	if err := f.setGUID(0x08, fmeGUID); err != nil {
		return err
	}
	f.set(0x30, m.capability|uint64(ports)<<17)
	for i := range uint64(ports) {
		f.set(0x38+8*i, 1<<60|f.ports[i]) // implemented, and in BAR 0
	}
	f.set(0x60, m.bitstream)
	f.set(0x68, m.metadata)
	f.set(fmeThermal+0x08, 93|90<<8|95<<24) // thresholds in °C: critical, maximum, trip
	f.set(fmeThermal+0x10, 47)
	f.set(fmeThermal+0x20, m.throttle)
	if m.has(fmePower) {
		f.set(fmePower+0x08, 50)
	}
	f.set(fmePR+prStatus, prCredits)
	return f.setGUID(fmePR+0xa8, m.iface)
}

func (m *fmeModel) has(at uint64) bool {
	return slices.ContainsFunc(m.features, func(x feature) bool { return x.at == at })
}

// initPort writes the registers of the port with this number and of its AFU.
func (f *function) initPort(number int, m portModel) error {
	at := f.ports[number]
	f.writeHeaders(at, 1, m.revision, m.features)
	f.set(at+0x30, afuKiB<<8|uint64(number)) // capability
	f.set(at+portControl, portReset)
	if m.afu == "" {
		return nil
	}
	f.set(at+0x18, afuAt)
	return f.setAFU(at, m.afu)
}

// setAFU writes the AFU registers of the port at this offset.
func (f *function) setAFU(port uint64, guid string) error {
	f.set(port+afuAt, header(afuHeader, 0, 0, 0))
	return f.setGUID(port+afuAt+8, guid)
}
