package main

import (
	"encoding/binary"
	"fmt"
	"strconv"
)

// Where the features of a card stand in its BAR 0. The layout is ours, the
// registers are those of drivers/fpga/dfl.h and the dfl-fme and dfl-afu drivers.
const (
	barSize = 1 << 20

	fmeThermal  = 0x1000
	fmePower    = 0x2000
	fmePerf     = 0x3000
	fmeErrors   = 0x4000
	fmePR       = 0x5000
	fmeHSSI     = 0x6000
	portAt      = 0x40000
	portErrors  = 0x1000  // from the port
	portSTP     = 0x2000  // from the port
	afuAt       = 0x40000 // from the port
	afuKiB      = 256
	portControl = 0x38
	portStatus  = 0x40
)

// Partial reconfiguration, from fmePR.
const (
	prControl = 0x08
	prStatus  = 0x10
	prData    = 0x18
	prError   = 0x20

	prReset, prResetAck  = 1 << 0, 1 << 4
	prStart, prComplete  = 1 << 12, 1 << 13
	prCredits            = 256
	prBusy               = 1 << 16
	prOperationFailed    = 1 // an error of prError
	portReset, portReady = 1 << 0, 1 << 4
)

// model is what distinguishes the cards that can be plugged.
type model struct {
	device, subsystem uint16 // of vendor 8086
	afu, iface        string
	fme               bool // without: a virtual function, which is a port alone
	portRevision      uint64
}

var models = map[string]model{
	"a10":    {device: 0x09c4, iface: "69528db6eb31577a8c3668f9faa081f6", afu: "d8424dc4a4a3c413f89e433683f9040b", fme: true},
	"d5005":  {device: 0x0b2b, subsystem: 0x138d, iface: "9346116d4e4cb66ea1cbe92e1e1f8f5e", afu: "bfaf2ae94a5246e382fe38f0f9e17764", fme: true, portRevision: 1},
	"a10-vf": {device: 0x09c5, afu: "d8424dc4a4a3c413f89e433683f9040b"},
}

const fmeGUID = "bfaf2ae94a5246e382fe38f0f9e17764"

func (c *card) register(at uint64) uint64     { return binary.LittleEndian.Uint64(c.bar[at:]) }
func (c *card) set(at uint64, value uint64)   { binary.LittleEndian.PutUint64(c.bar[at:], value) }
func (c *card) raise(at uint64, value uint64) { c.set(at, c.register(at)|value) }

// setGUID stores 32 hexadecimal digits: the low half stands first.
func (c *card) setGUID(at uint64, guid string) error {
	if len(guid) != 32 {
		return fmt.Errorf("GUID %q: want 32 hexadecimal digits", guid)
	}
	high, err := strconv.ParseUint(guid[:16], 16, 64)
	if err != nil {
		return err
	}
	low, err := strconv.ParseUint(guid[16:], 16, 64)
	if err != nil {
		return err
	}
	c.set(at, low)
	c.set(at+8, high)
	return nil
}

// Types of device feature headers.
const (
	afuHeader     = 1
	featureHeader = 3
	fiuHeader     = 4
)

// header is a device feature header. next is the distance to the next one, 0: there
// is none.
func header(kind, id, revision, next uint64) uint64 {
	v := kind<<60 | id&0xfff | revision&0xf<<12 | next&0xffffff<<16
	if next == 0 {
		v |= 1 << 40
	}
	return v
}

func (c *card) setAFU(guid string) error {
	c.set(c.port+afuAt, header(afuHeader, 0, 0, 0))
	return c.setGUID(c.port+afuAt+8, guid)
}

// layFME writes the management engine of a card with one port.
func (c *card) layFME(m model) error {
	c.set(0x00, header(fiuHeader, 0, 0, fmeThermal))
	if err := c.setGUID(0x08, fmeGUID); err != nil {
		return err
	}
	c.set(0x30, 1<<12|1<<17|48<<24) // capability: first PCIe link, one port
	c.set(0x38, 1<<60|portAt)       // port 0: implemented, in BAR 0
	c.set(0x60, 0x0123000200000185) // bitstream id
	c.set(0x68, 0x0000000018052500) // bitstream metadata
	c.set(fmeThermal, header(featureHeader, 1, 0, fmePower-fmeThermal))
	c.set(fmeThermal+0x08, 93|90<<8|95<<24) // thresholds in °C: crit, max, trip
	c.set(fmeThermal+0x10, 47)
	c.set(fmePower, header(featureHeader, 2, 0, fmePerf-fmePower))
	c.set(fmePower+0x08, 50)
	c.set(fmePerf, header(featureHeader, 3, 0, fmeErrors-fmePerf))
	c.set(fmeErrors, header(featureHeader, 4, 1, fmePR-fmeErrors))
	c.set(fmePR, header(featureHeader, 5, 0, fmeHSSI-fmePR))
	c.set(fmePR+prStatus, prCredits)
	c.set(fmeHSSI, header(featureHeader, 6, 0, 0)) // without a driver in the tree: a device of the dfl bus
	return c.setGUID(fmePR+0xa8, m.iface)
}

// layPort writes a port and its AFU.
func (c *card) layPort(m model) error {
	c.set(c.port, header(fiuHeader, 1, m.portRevision, portErrors))
	c.set(c.port+0x18, afuAt)
	c.set(c.port+0x30, afuKiB<<8) // capability: port number 0
	c.set(c.port+portControl, portReset)
	c.set(c.port+portErrors, header(featureHeader, 0x10, 2, portSTP-portErrors))
	c.set(c.port+portSTP, header(featureHeader, 0x13, 2, 0))
	return c.setAFU(m.afu)
}
