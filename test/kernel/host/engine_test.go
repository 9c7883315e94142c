package main

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"testing"
)

const image = "deadbeef000102030405060708090a0b"

// push programs a port as dfl-fme-mgr.c does, and returns the error register.
func push(t *testing.T, f *function, port uint64, text string) uint64 {
	raw, err := hex.DecodeString(text)
	if err != nil {
		t.Fatal(err)
	}
	at := func(r uint64) uint64 { return fmePR + r }
	f.write(at(prControl), prReset, 8)
	if reg(f, at(prControl))&prResetAck == 0 {
		t.Error("reset is not acknowledged")
	}
	f.write(at(prControl), port<<7, 8)
	f.write(at(prControl), port<<7|prStart, 8)
	for word := range len(raw) / 4 {
		if reg(f, at(prStatus))&0x1ff == 0 {
			t.Fatal("no credit")
		}
		f.write(at(prData), uint64(binary.LittleEndian.Uint32(raw[4*word:])), 4)
	}
	f.write(at(prControl), port<<7|prStart|prComplete, 8)
	if reg(f, at(prControl))&(prStart|prComplete) != 0 {
		t.Error("control register: programming is not complete")
	}
	return reg(f, at(prError))
}

func afuOf(f *function, port uint64) string {
	at := portAt + portStride*port + afuAt
	return fmt.Sprintf("%016x%016x", reg(f, at+0x10), reg(f, at+0x08))
}

func TestProgram(t *testing.T) {
	for _, tc := range []struct {
		name         string
		port         uint64
		image        string
		fail         bool
		first, other string // the AFUs afterwards
		errors       uint64
	}{
		{"first port", 0, image, false, image, nlb2, 0},
		{"second port", 1, image, false, nlb, image, 0},
		{"no such port", 2, image, false, nlb, nlb2, 0},
		{"an image too short to name an AFU", 0, "deadbeef", false, nlb, nlb2, 0},
		{"failure", 0, image, true, nlb, nlb2, prOperationFailed},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := functionOf(t, "a10-2p")
			if tc.fail {
				if err := f.apply("pr", []string{"fail"}); err != nil {
					t.Fatal(err)
				}
			}
			if got := push(t, f, tc.port, tc.image); got != tc.errors {
				t.Errorf("errors %#x, want %#x", got, tc.errors)
			}
			if afuOf(f, 0) != tc.first || afuOf(f, 1) != tc.other {
				t.Errorf("AFUs %s, %s, want %s, %s", afuOf(f, 0), afuOf(f, 1), tc.first, tc.other)
			}
		})
	}
}

// A failure lasts until its error is cleared, and the next programming succeeds.
func TestProgramAfterFailure(t *testing.T) {
	f := functionOf(t, "a10")
	if err := f.apply("pr", []string{"fail"}); err != nil {
		t.Fatal(err)
	}
	push(t, f, 0, image)
	if got := reg(f, fmePR+prStatus); got&prBusy == 0 {
		t.Errorf("status %#x, want a pending error", got)
	}
	f.write(fmePR+prError, prOperationFailed, 8)
	if status, errors := reg(f, fmePR+prStatus), reg(f, fmePR+prError); status != prCredits || errors != 0 {
		t.Errorf("status %#x, errors %#x; want %#x and no errors", status, errors, prCredits)
	}
	if got := push(t, f, 0, image); got != 0 || afuOf(f, 0) != image {
		t.Errorf("errors %#x, AFU %s; want no errors and %s", got, afuOf(f, 0), image)
	}
}

func TestBusy(t *testing.T) {
	f := functionOf(t, "a10")
	for _, tc := range []struct {
		state string
		want  uint64
	}{{"busy", prCredits | prBusy}, {"ready", prCredits}} {
		if err := f.apply("pr", []string{tc.state}); err != nil {
			t.Fatal(err)
		}
		if got := reg(f, fmePR+prStatus); got != tc.want {
			t.Errorf("%s: %#x, want %#x", tc.state, got, tc.want)
		}
	}
}

// Bits of the injection register set bits of the catastrophic and non-fatal error registers.
func TestInject(t *testing.T) {
	f := functionOf(t, "a10")
	f.write(fmeErrors+0x68, 7, 8)
	if catfatal, nonfatal := reg(f, fmeErrors+0x60), reg(f, fmeErrors+0x50); catfatal != 3<<10 || nonfatal != 1<<6 {
		t.Errorf("catastrophic %#x, non-fatal %#x, want %#x and %#x", catfatal, nonfatal, 3<<10, 1<<6)
	}
}
