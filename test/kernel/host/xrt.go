package main

import "fmt"

// xrtModel is the shell of a card whose user function is driven by xocl, the driver of Xilinx' XRT.
type xrtModel struct {
	vbnv, fpga string
	timestamp  uint64
}

const (
	xrtBAR     = 64 << 20 // the subdevices of a shell have addresses up to 32 MiB
	xrtROM     = 0xb0000
	xrtMailbox = 0x200000
)

// initXRT writes the registers that xocl reads: the feature ROM (struct FeatureRomHeader of
// XRT's xclfeatures.h) and the ids of the DMA engine (libxdma.h). All others are 0.
func (f *function) initXRT(m *xrtModel) {
	f.bar = make([]byte, xrtBAR)
	f.config[0x3d] = 1 // has an interrupt
	f.set(0x2000, 0x1fc20006)
	f.set(0x3000, 0x1fc30006)
	rom := f.bar[xrtROM:]
	copy(rom, "xlnx\x0a")
	f.set(xrtROM+16, m.timestamp)
	copy(rom[24:88], m.fpga)
	copy(rom[88:152], m.vbnv)
	f.set(xrtROM+152, 16<<8|4) // four banks of memory, of 16 GB
	f.set(xrtROM+168, 5)       // the features that all shells have
	f.mailbox = &mailbox{}
}

// mailbox is a card's hardware mailbox. It also plays the driver of the management function at the other end: see XRT's
// xocl/subdev/mailbox.c and include/mailbox_proto.h. Its registers have 32 bits.
type mailbox struct {
	packet []uint32 // the part of a packet that xocl has written so far
	asked  uint32   // the code of the request
	id     uint64   // the id of the request
	queue  []uint32 // packets that xocl has not read yet
}

const (
	packetSize = 16 // words
	// Words of a packet. The last one is in its payload, struct xcl_mailbox_req.
	packetType, packetID, packetFlags, requestCode = 0, 2, 4, 8

	messageStart, messageEnd = 2, 1 << 31 // in packetType
	isResponse, isRequest    = 1, 2       // in packetFlags

	// Codes of requests.
	hotReset, firewallTripped, peerData, userProbe, managementState = 5, 6, 10, 11, 12
)

// read returns the value of a register.
func (m *mailbox) read(r uint64) uint64 {
	switch {
	case r == 0x10 && len(m.queue) == 0: // status: nothing to read, ready to be written
		return 1<<0 | 1<<2
	case r == 0x10: // something to read, ready to be written
		return 1<<3 | 1<<2
	case r == 0x08 && len(m.queue) > 0:
		word := m.queue[0]
		m.queue = m.queue[1:]
		return uint64(word)
	}
	return 0
}

// write takes a word of a packet. After the last packet of a request, it puts the answer into the queue.
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
	case hotReset: // ESHUTDOWN: the reset has begun; the state online will end it
		m.send(isResponse, m.id, []uint32{1<<32 - 108})
	case peerData: // no data
		m.send(isResponse, m.id, make([]uint32, 6))
	case userProbe: // struct xcl_mailbox_conn_resp: ready, on the same host
		m.send(isResponse, m.id, []uint32{0, 0, 3, 0, 0, 0})
	}
	m.asked = 0
}

// send queues a message of one packet.
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
