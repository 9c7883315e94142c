package main

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"syscall"
)

// Commands of qemu's proxy, in the order of hw/remote/mpqemu-link.h.
const (
	syncSysmem = iota
	answer
	configWrite
	configRead
	barWrite
	barRead
	setIRQ
	reset
)

// maxPayload is the maximum size of a payload. The proxy sends payloads of 20 to 200 bytes.
const maxPayload = 1 << 16

// access is a command: a 16-byte header (command and size), followed by the payload.
type access struct {
	command uint32
	payload []byte
}

// serve answers qemu's commands for this function until qemu closes the connection.
func (f *function) serve(conn *net.UnixConn) {
	defer conn.Close()
	for {
		a, err := receive(conn)
		if err != nil {
			return // qemu has closed the connection
		}
		value, ok := f.answer(a)
		if !ok {
			continue
		}
		out := make([]byte, 24)
		binary.LittleEndian.PutUint32(out, answer)
		binary.LittleEndian.PutUint64(out[8:], 8)
		binary.LittleEndian.PutUint64(out[16:], value)
		if _, err := conn.Write(out); err != nil {
			return
		}
	}
}

// receive reads a command. qemu may send file descriptors with it, for the guest's memory and for interrupts. receive
// closes them, because these cards don't use them.
func receive(conn *net.UnixConn) (access, error) {
	head, rights := make([]byte, 16), make([]byte, 256)
	n, m, _, _, err := conn.ReadMsgUnix(head, rights)
	if err != nil {
		return access{}, err
	}
	if err := closeAll(rights[:m]); err != nil {
		return access{}, err
	}
	if n == 0 {
		return access{}, io.EOF
	}
	if _, err := io.ReadFull(conn, head[n:]); err != nil {
		return access{}, err
	}
	size := binary.LittleEndian.Uint64(head[8:])
	if size > maxPayload {
		return access{}, fmt.Errorf("payload: found %d bytes, want at most %d", size, maxPayload)
	}
	a := access{command: binary.LittleEndian.Uint32(head), payload: make([]byte, size)}
	_, err = io.ReadFull(conn, a.payload)
	return a, err
}

func closeAll(rights []byte) error {
	if len(rights) == 0 {
		return nil
	}
	messages, err := syscall.ParseSocketControlMessage(rights)
	if err != nil {
		return err
	}
	for _, m := range messages {
		fds, err := syscall.ParseUnixRights(&m)
		if err != nil {
			return err
		}
		for _, fd := range fds {
			_ = syscall.Close(fd)
		}
	}
	return nil
}

// answer executes a command and returns the value to answer with. ok is false if qemu doesn't expect an answer.
func (f *function) answer(a access) (value uint64, ok bool) {
	le := binary.LittleEndian
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case (a.command == configRead || a.command == configWrite) && len(a.payload) >= 12: // address, value, length
		at, n := int(le.Uint32(a.payload)), width(uint64(le.Uint32(a.payload[8:])))
		if a.command == configRead {
			return f.readConfig(at, n), true
		}
		f.writeConfig(at, le.Uint32(a.payload[4:]), n)
		return 0, true
	case (a.command == barRead || a.command == barWrite) && len(a.payload) >= 20: // address, value, length
		at, n := le.Uint64(a.payload)-f.base(), width(uint64(le.Uint32(a.payload[16:])))
		switch {
		case at >= uint64(len(f.bar)):
			return ones, true
		case a.command == barRead:
			return f.read(at, n), true
		}
		f.write(at, le.Uint64(a.payload[8:]), n)
		return 0, true
	}
	return 0, a.command == reset
}

// width limits a length in bytes to the size of a register.
func width(n uint64) int { return int(min(n, 8)) }
