package main

import "fmt"

// xrtModel is the shell of a card whose user function is driven by xocl, the driver in Xilinx's XRT.
type xrtModel struct {
	vbnv, fpga string
	timestamp  uint64
}

const (
	xrtBAR     = 64 << 20 // the addresses of a shell's subdevices go up to 32 MiB
	xrtROM     = 0xb0000
	xrtMailbox = 0x200000
)

// initXRT writes the registers that xocl reads: the feature ROM (struct FeatureRomHeader in XRT's xclfeatures.h) and
// the DMA engine's IDs (libxdma.h). All other registers are 0.
func (f *function) initXRT(m *xrtModel) {
	f.bar = make([]byte, xrtBAR)
	f.config[0x3d] = 1 // interrupt pin
	f.set(0x2000, 0x1fc20006)
	f.set(0x3000, 0x1fc30006)
	rom := f.bar[xrtROM:]
	copy(rom, "xlnx\x0a")
	f.set(xrtROM+16, m.timestamp)
	copy(rom[24:88], m.fpga)
	copy(rom[88:152], m.vbnv)
	f.set(xrtROM+152, 16<<8|4) // four memory banks of 16 GB each
	f.set(xrtROM+168, 5)       // the features that all shells have
	f.mailbox = &mailbox{}
}

// mailbox emulates a card's hardware mailbox, and also the management function's driver at the other end (see
// xocl/subdev/mailbox.c and include/mailbox_proto.h in XRT). Its registers are 32 bits wide.
type mailbox struct {
	packet []uint32 // what xocl has written of a packet so far
	asked  uint32   // the request's code
	id     uint64   // the request's ID
	queue  []uint32 // packets that xocl hasn't read yet
}

const (
	packetSize = 16 // words
	// Word offsets in a packet. requestCode is in the payload, struct xcl_mailbox_req.
	packetType, packetID, packetFlags, requestCode = 0, 2, 4, 8

	messageStart, messageEnd = 2, 1 << 31 // in packetType
	isResponse, isRequest    = 1, 2       // in packetFlags

	// Request codes.
	hotReset, firewallTripped, peerData, userProbe, managementState = 5, 6, 10, 11, 12
)

// read returns the value of a register.
func (m *mailbox) read(r uint64) uint64 {
	switch {
	case r == 0x10 && len(m.queue) == 0: // status: nothing to read, ready for a write
		return 1<<0 | 1<<2
	case r == 0x10: // something to read, ready for a write
		return 1<<3 | 1<<2
	case r == 0x08 && len(m.queue) > 0:
		word := m.queue[0]
		m.queue = m.queue[1:]
		return uint64(word)
	}
	return 0
}

// write receives a word of a packet. After a request's last packet, it queues the answer.
func (m *mailbox) write(r uint64, word uint32) {
	if r != 0 {
		return
	}
	m.packet = append(m.packet, word)
	if len(m.packet) < packetSize {
		return
	}
	p := m.packet
	m.packet = nil
	if p[packetType]&0xff == messageStart && p[packetFlags] == isRequest {
		m.asked, m.id = p[requestCode], uint64(p[packetID+1])<<32|uint64(p[packetID])
	}
	if p[packetType]&messageEnd == 0 {
		return
	}
	switch m.asked {
	case hotReset: // ESHUTDOWN: the reset has begun, and will end with the state online
		m.send(isResponse, m.id, []uint32{1<<32 - 108})
	case peerData: // no data
		m.send(isResponse, m.id, make([]uint32, 6))
	case userProbe: // struct xcl_mailbox_conn_resp: ready, on the same host
		m.send(isResponse, m.id, []uint32{0, 0, 3, 0, 0, 0})
	}
	m.asked = 0
}

// send queues a message that consists of a single packet.
func (m *mailbox) send(flags uint32, id uint64, payload []uint32) {
	length := uint32(4 * len(payload))
	packet := append([]uint32{messageStart | messageEnd, length, uint32(id), uint32(id >> 32), flags, length}, payload...)
	m.queue = append(m.queue, append(packet, make([]uint32, packetSize-len(packet))...)...)
}

// report makes the management function report a state to xocl.
func (m *mailbox) report(state string) error {
	switch state {
	case "online":
		m.send(isRequest, 1, []uint32{0, 0, managementState, 1, 0})
	case "offline":
		m.send(isRequest, 1, []uint32{0, 0, managementState, 2, 0})
	case "firewall":
		m.send(isRequest, 1, []uint32{0, 0, firewallTripped})
	default:
		return fmt.Errorf("state: found %q, want online, offline or firewall", state)
	}
	return nil
}
