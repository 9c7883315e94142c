package main

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// A driver gets the size of BAR 0 from the bits that stay 0 when it writes ones.
func TestBARSize(t *testing.T) {
	for _, tc := range []struct {
		name     string
		model    string
		function int
		want     uint64
	}{
		{"with features", "a10", 0, 0xfff00000},
		{"of several functions", "n6000", 0, 0xfff00000},
		{"without FME and port", "n6000", 3, 0xfffff000},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c, err := newCard("c0", models[tc.model])
			if err != nil {
				t.Fatal(err)
			}
			f := c.functions[tc.function]
			f.writeConfig(0x10, ^uint32(0), 4)
			if got := f.readConfig(0x10, 4); got != tc.want {
				t.Errorf("got %#x, want %#x", got, tc.want)
			}
			f.writeConfig(0x10, 0xfe900000, 4)
			if got := f.base(); got != 0xfe900000 {
				t.Errorf("base %#x, want 0xfe900000", got)
			}
			if got := f.readConfig(0x14, 4); got != 0 {
				t.Errorf("BAR 1 is %#x, want 0", got)
			}
		})
	}
}

func TestConfig(t *testing.T) {
	f := functionOf(t, "n6000")
	for _, tc := range []struct {
		name         string
		at, n        int
		write        uint32
		before, want uint64
	}{
		{"vendor and device", 0x00, 4, 0, 0xbcce8086, 0xbcce8086},
		{"class", 0x08, 4, ^uint32(0), 0x12000000, 0x12000000},
		{"command", 0x04, 2, ^uint32(0), 0, 0x0546}, // memory, bus master, parity, SERR#, interrupt disable
		{"several functions", 0x0e, 1, 0, 0x80, 0x80},
		{"interrupt line", 0x3c, 1, 0x0b, 0, 0x0b},
		{"subsystem", 0x2c, 4, 0, 0x17708086, 0x17708086},
		{"across the end", 0xfe, 4, ^uint32(0), 0, 0},
		{"beyond", 0x1000, 4, ^uint32(0), 0, 0},
	} {
		before := f.readConfig(tc.at, tc.n)
		f.writeConfig(tc.at, tc.write, tc.n)
		if after := f.readConfig(tc.at, tc.n); before != tc.before || after != tc.want {
			t.Errorf("%s: got %#x, and %#x after writing %#x; want %#x and %#x", tc.name, before, after, tc.write, tc.before, tc.want)
		}
	}
	if got := functionOf(t, "a10").readConfig(0x0e, 1); got != 0 {
		t.Errorf("header type %#x of a single function, want 0", got)
	}
}

// Reads of a dead card return ones, and writes are ignored; after revive, the registers are unchanged.
func TestDead(t *testing.T) {
	c, err := newCard("c0", models["n6000"])
	if err != nil {
		t.Fatal(err)
	}
	if err := c.apply("kill", nil); err != nil {
		t.Fatal(err)
	}
	for i, f := range c.functions {
		f.writeConfig(0x10, 0xfe900000, 4)
		f.write(0x48, 1, 8)
		if config, bar := f.readConfig(0, 4), f.read(0, 4); config != ones || bar != ones {
			t.Errorf("function %d: got %#x and %#x, want ones", i, config, bar)
		}
	}
	if err := c.apply("revive", nil); err != nil {
		t.Fatal(err)
	}
	for i, f := range c.functions {
		if base, r := f.base(), reg(f, 0x48); base != 0 || r != 0 {
			t.Errorf("function %d: base %#x, register %#x; want 0: writes to a dead card are ignored", i, base, r)
		}
	}
}

func TestAccess(t *testing.T) {
	f := functionOf(t, "a10")
	const at = fmePower + 0x10
	f.write(at, 0x1122334455667788, 8)
	f.write(at+4, 0xaabbccdd, 4)
	f.write(at+1, 0xee, 1)
	for _, tc := range []struct {
		at   uint64
		n    int
		want uint64
	}{
		{at, 8, 0xaabbccdd5566ee88}, {at, 4, 0x5566ee88}, {at + 4, 4, 0xaabbccdd}, {at + 2, 2, 0x5566},
		{at + 4, 8, ones}, // across two registers
		{barSize - 8, 8, 0}, {barSize, 8, ones}, {barSize - 4, 8, ones}, {ones - 7, 8, ones}, {ones, 1, ones},
		{at, 0, 0},
	} {
		if got := f.read(tc.at, tc.n); got != tc.want {
			t.Errorf("%d bytes at %#x: %#x, want %#x", tc.n, tc.at, got, tc.want)
		}
		f.write(tc.at, f.read(tc.at, tc.n), tc.n) // must not panic
	}
}

func TestWriteOneToClear(t *testing.T) {
	port1 := uint64(portAt + portStride)
	for _, tc := range []struct {
		name        string
		at          uint64
		have, write uint64
		want        uint64
		other       uint64 // a register that must not change
	}{
		{name: "port error", at: portAt + portErrors + 0x10, have: 1<<50 | 1<<32, write: 1 << 50, want: 1 << 32},
		{name: "error of the second port", at: port1 + portErrors + 0x10, have: 3, write: 1, want: 2, other: portAt + portErrors + 0x10},
		{name: "first error", at: portAt + portErrors + 0x18, have: 3, write: 3, want: 0},
		{name: "AP1 and AP2, not the power state", at: portAt + portStatus, have: 3<<12 | 6<<8, write: ^uint64(0), want: 6 << 8},
		{name: "FME error", at: fmeErrors + 0x10, have: 7, write: 2, want: 5},
		{name: "catastrophic", at: fmeErrors + 0x60, have: 1 << 10, write: 1 << 10, want: 0},
		{name: "header of the FME", at: 0x30, have: 5, write: 1, want: 5},
		{name: "header of the port", at: portAt + 0x30, have: 5, write: 1, want: 5},
		{name: "mask of errors is a plain register", at: portAt + portErrors + 0x08, have: 3, write: 5, want: 5},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := functionOf(t, "a10-2p")
			f.set(tc.at, tc.have)
			if tc.other != 0 {
				f.set(tc.other, tc.have)
			}
			f.write(tc.at, tc.write, 8)
			if got := reg(f, tc.at); got != tc.want {
				t.Errorf("got %#x, want %#x", got, tc.want)
			}
			if tc.other != 0 && reg(f, tc.other) != tc.have {
				t.Errorf("register %#x: got %#x, want %#x", tc.other, reg(f, tc.other), tc.have)
			}
		})
	}
}

func TestPortReset(t *testing.T) {
	f := functionOf(t, "a10")
	for _, tc := range []struct{ write, want uint64 }{
		{portReset, portReset | portReady}, {0, 0}, {portReady, 0}, {portReset | 1<<2, portReset | 1<<2 | portReady},
	} {
		f.write(portAt+portControl, tc.write, 8)
		if got := reg(f, portAt+portControl); got != tc.want {
			t.Errorf("after %#x: %#x, want %#x", tc.write, got, tc.want)
		}
	}
}

// The device feature lists of each model: of its FME, of the ports that the FME lists, and
// of their AFUs.
func TestFeatureLists(t *testing.T) {
	portAndAFU := func(number int, afu string) []string {
		return []string{fmt.Sprintf("port %d", number), "feature 0x10", "feature 0x13", "AFU " + afu}
	}
	fme := []string{"FME", "feature 0x1", "feature 0x2", "feature 0x3", "feature 0x4", "feature 0x5", "feature 0x6"}
	for name, want := range map[string][][]string{
		"a10":    {fme, portAndAFU(0, nlb)},
		"a10-2p": {fme, portAndAFU(0, nlb), portAndAFU(1, nlb2)},
		"d5005":  {fme, portAndAFU(0, hello)},
		"a10-vf": {portAndAFU(0, nlb)},
		"n6000": {{"FME", "feature 0x1", "feature 0x4", "feature 0x5", "feature 0x20", "feature 0x13", "feature 0x13",
			"feature 0x12", "feature 0x14", "feature 0x15", "feature 0x9", "feature 0x24"}, {"port 0", "feature 0x14"}},
	} {
		t.Run(name, func(t *testing.T) {
			f := functionOf(t, name)
			got := [][]string{follow(t, f, 0)}
			for i := range reg(f, 0x30) >> 17 & 7 {
				if f.fme {
					got = append(got, follow(t, f, reg(f, 0x38+8*i)&0xffffff))
				}
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// follow returns the entries of one list, found as drivers/fpga/dfl.c does.
func follow(t *testing.T, f *function, start uint64) []string {
	var found []string
	for at := start; ; {
		h := reg(f, at)
		switch kind, id := h>>60, h&0xfff; {
		case kind == fiuHeader && id == 0:
			found = append(found, "FME")
		case kind == fiuHeader:
			found = append(found, fmt.Sprintf("port %d", reg(f, at+0x30)&3))
		case kind == featureHeader:
			found = append(found, fmt.Sprintf("feature %#x", id))
		default:
			t.Fatalf("offset %#x: header %#x, want the header of an FME, a port or a feature", at, h)
		}
		next := h >> 16 & 0xffffff
		if end := h>>40&1 == 1; end != (next == 0) {
			t.Fatalf("header %#x: end bit %v, distance to the next header %#x, want 0 only with the end bit", h, end, next)
		} else if end {
			break
		}
		at += next
	}
	if afu := reg(f, start+0x18) & 0xffffff; afu != 0 && found[0] != "FME" {
		if h := reg(f, start+afu); h>>60 != afuHeader {
			t.Fatalf("header %#x, want the header of an AFU", h)
		}
		found = append(found, fmt.Sprintf("AFU %016x%016x", reg(f, start+afu+0x10), reg(f, start+afu+0x08)))
	}
	return found
}
