package main

import (
	"slices"
	"testing"
)

// The management function answers the requests that xocl sends while it is bound, and reports states.
func TestMailbox(t *testing.T) {
	f, err := newFunction(models["u250"][1], true)
	if err != nil {
		t.Fatal(err)
	}
	status := func() uint64 { return f.read(xrtMailbox+0x10, 4) }
	read := func() (packet []uint32) {
		for range packetSize {
			packet = append(packet, uint32(f.read(xrtMailbox+8, 4)))
		}
		return packet
	}
	// A request of 36 bytes in one packet.
	ask := func(code uint32) {
		for _, word := range []uint32{messageStart | messageEnd, 36, 0xcafe, 1, isRequest, 36, 0, 0, code, 0, 0, 0, 0, 0, 0, 0} {
			f.write(xrtMailbox, uint64(word), 4)
		}
	}
	if got := status(); got != 5 {
		t.Errorf("status: got %#x, want 0x5: empty, ready to be written", got)
	}
	ask(userProbe)
	if got := status(); got != 12 {
		t.Errorf("status: got %#x, want 0xc: an answer, ready to be written", got)
	}
	if got, want := read(), []uint32{messageStart | messageEnd, 24, 0xcafe, 1, isResponse, 24, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0}; !slices.Equal(got, want) {
		t.Errorf("answer: got %#x, want %#x", got, want)
	}
	ask(3)
	if got := status(); got != 5 {
		t.Errorf("status after another request: got %#x, want 0x5: no answer", got)
	}
	c := &card{name: "c0", functions: []*function{{}, f}}
	if err := c.apply("management", []string{"offline"}); err != nil {
		t.Fatal(err)
	}
	if got, want := read(), []uint32{messageStart | messageEnd, 20, 1, 0, isRequest, 20, 0, 0, managementState, 2, 0, 0, 0, 0, 0, 0}; !slices.Equal(got, want) {
		t.Errorf("report: got %#x, want %#x", got, want)
	}
	if err := c.apply("management", []string{"absent"}); err == nil {
		t.Error("report of an unknown state: got no error")
	}
}
