package fpga_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"b-com.com/accelerator-device-plugin/programming"
	"b-com.com/accelerator-device-plugin/programming/fpga"
	bits "b-com.com/accelerator-device-plugin/test/bitstreamtest"
	"b-com.com/accelerator-device-plugin/test/compare"
	"b-com.com/accelerator-device-plugin/test/must"
)

// TestStructures checks the layouts against include/uapi/linux/fpga-dfl.h and intel-fpga.h.
func TestStructures(t *testing.T) {
	want := map[string]uintptr{
		"program": 32, "program.size": 0, "program.flags": 4, "program.port": 8,
		"program.buffer_size": 12, "program.buffer_address": 16, "program.status": 24,
		"port": 12, "port.size": 0, "port.flags": 4, "port.port": 8,
	}
	compare.Values(t, "offsets", want, fpga.Offsets())
}

// rig is a host with a card, a store, and a driver that answers requests.
type rig struct {
	t    *testing.T
	dir  string
	host fpga.Host
	p    fpga.Programmer

	requests []uintptr
	arg      fpga.ProgramArg // from the last programming request
	number   uint32          // from the last release or assign request
	answer   func(arg unsafe.Pointer) error
}

func newRig(t *testing.T, boardNames ...string) *rig {
	dir := t.TempDir()
	must.Succeed(t, os.Chmod(dir, 0o755))
	r := &rig{t: t, dir: dir, host: newHost(t, boardNames...)}
	r.p = fpga.Programmer{Host: r.host, LockDir: filepath.Join(dir, "lock"), Store: programming.Store(filepath.Join(dir, "store"))}
	r.p.SetIoctl(func(fd int, request uintptr, arg unsafe.Pointer) error {
		r.requests = append(r.requests, request)
		switch request {
		case 0xb680, 0xb580:
			r.arg = fpga.ProgramArgAt(arg)
			r.arg.Data = bytes.Clone(r.arg.Data)
		case 0x4004b681, 0x4004b682:
			r.number = *(*uint32)(arg)
		case 0xb581, 0xb582:
			var size, flags uint32
			if size, flags, r.number = fpga.PortArgAt(arg); size != 12 || flags != 0 {
				t.Errorf("argument of %d bytes with flags %d, want 12, 0", size, flags)
			}
		default:
			t.Errorf("request %#x", request)
		}
		if r.answer == nil {
			return nil
		}
		return r.answer(arg)
	})
	return r
}

// card returns the named card and its first port.
func (r *rig) card(name string) (fpga.Card, fpga.Port) {
	r.t.Helper()
	card, _, err := fpga.Find(r.host, name)
	must.Succeed(r.t, err)
	if len(card.Ports) == 0 {
		return card, fpga.Port{}
	}
	return card, card.Ports[0]
}

// write writes to the sysfs file whose path ends in name, which must be unique.
func (r *rig) write(name, text string) {
	r.t.Helper()
	var found []string
	filepath.WalkDir(r.host.Sys+"/devices", func(path string, _ fs.DirEntry, _ error) error {
		if strings.HasSuffix(path, "/"+name) {
			found = append(found, path)
		}
		return nil
	})
	if len(found) != 1 {
		r.t.Fatalf("%s: %q", name, found)
	}
	must.Succeed(r.t, os.WriteFile(found[0], []byte(text), 0o644))
}

var raw = []byte("a raw bitstream")

// gbs opens a GBS for the given interface and AFU.
func (r *rig) gbs(interfaceID, afuID string) *programming.Bitstream {
	return r.open("x.gbs", bits.GBS(bits.Metadata(interfaceID, afuID), raw))
}

func (r *rig) open(name string, data []byte) *programming.Bitstream {
	r.t.Helper()
	path := filepath.Join(r.dir, name)
	must.Succeed(r.t, os.WriteFile(path, data, 0o644))
	b := must.Value(programming.Open(path))(r.t)
	r.t.Cleanup(func() { b.Close() })
	return b
}

func TestProgram(t *testing.T) {
	aocx := bits.AOCX(bits.Hash, "pac_a10", bits.GBS(bits.Metadata(pac, bits.OpenCL), raw))
	opaeInterface := "a1b2c3d4e5f60718293a4b5c6d7e8f90"
	for _, test := range []struct {
		name, board, card, file string
		data                    []byte
		always                  bool
		had                     string // the AFU it had before
		request                 uintptr
		want                    fpga.ProgramArg
	}{
		{"GBS", "kernel-6.1-one-card", "01:00.0", "x.gbs", bits.GBS(bits.Metadata(pac, otherAFU), raw), false, afu,
			0xb680, fpga.ProgramArg{Size: 24, Data: raw}},
		{"AOCX", "kernel-6.1-one-card", "01:00.0", "x.aocx", aocx, false, afu,
			0xb680, fpga.ProgramArg{Size: 24, Data: raw}},
		{"another AOCX", "kernel-6.1-one-card", "01:00.0", "x.aocx", aocx, false, bits.OpenCL,
			0xb680, fpga.ProgramArg{Size: 24, Data: raw}},
		{"GBS with the id of all AOCX", "kernel-6.1-one-card", "01:00.0", "x.gbs", bits.GBS(bits.Metadata(pac, bits.OpenCL), raw), false, bits.OpenCL,
			0xb680, fpga.ProgramArg{Size: 24, Data: raw}},
		{"there already", "kernel-6.1-one-card", "01:00.0", "x.gbs", bits.GBS(bits.Metadata(pac, afu), raw), false, afu,
			0, fpga.ProgramArg{}},
		{"there already, always", "kernel-6.1-one-card", "01:00.0", "x.gbs", bits.GBS(bits.Metadata(pac, afu), raw), true, afu,
			0xb680, fpga.ProgramArg{Size: 24, Data: raw}},
		{"opae", "opae-one-card", "82:00.0", "x.gbs", bits.GBS(bits.Metadata(opaeInterface, otherAFU), raw), false, afu,
			0xb580, fpga.ProgramArg{Size: 32, Data: raw}},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := newRig(t, test.board)
			r.p.Always = test.always
			r.write("afu_id", test.had+"\n")
			b := r.open(test.file, test.data)
			r.answer = func(unsafe.Pointer) error {
				r.write("afu_id", b.AFUID+"\n")
				return nil
			}
			card, port := r.card(test.card)
			err := r.p.Program(t.Context(), card, port, b)
			if loaded := errors.Is(err, fpga.ErrLoaded); loaded != (test.request == 0) || err != nil && !loaded {
				t.Fatal(err)
			}
			compare.Values(t, "argument", test.want, r.arg)
			if want := slices.DeleteFunc([]uintptr{test.request}, func(r uintptr) bool { return r == 0 }); !slices.Equal(r.requests, want) {
				t.Errorf("requests %#x, want %#x", r.requests, want)
			}
		})
	}
}

// A card's second port can be programmed, and so can a virtual function's port, through the physical function's FME.
func TestProgramOtherPort(t *testing.T) {
	r := newRig(t, "kernel-6.1-two-ports")
	card, _ := r.card("01:00.0")
	b := r.gbs(pac, otherAFU)
	r.answer = func(unsafe.Pointer) error {
		r.write("dfl-port.1/afu_id", otherAFU)
		return nil
	}
	if err := r.p.Program(t.Context(), card, card.Ports[1], b); err != nil || r.arg.Port != 1 {
		t.Errorf("port %d, %v, want 1", r.arg.Port, err)
	}

	r = newRig(t, "dfl-vf")
	card, port := r.card("03:00.0")
	r.answer = func(unsafe.Pointer) error {
		compare.NoError(t, "lock", compare.ErrorOf(os.Stat(r.p.LockDir+"/0000:01:00.0.lock")))
		r.write("dfl-port.1/afu_id", otherAFU)
		return nil
	}
	if err := r.p.Program(t.Context(), card, port, b); err != nil || port.Name != "dfl-port.1" {
		t.Errorf("%s: %v", port.Name, err)
	}
}

// If Program refuses, no request is sent to the driver. The error is a single line with the card, the cause and the
// remedy.
func TestProgramRefuses(t *testing.T) {
	allF := strings.Repeat("f", 32)
	r := newRig(t, "kernel-6.1-one-card")
	good := r.gbs(pac, otherAFU)
	for _, test := range []struct {
		name, board string
		b           *programming.Bitstream
		change      func(r *rig, card *fpga.Card, port *fpga.Port)
		want        string
	}{
		{"another interface", "kernel-6.1-one-card", r.gbs(other, otherAFU), nil,
			"x.gbs: found interface " + other + ", want " + pac + " of the card"},
		{"interface of all f", "kernel-6.1-one-card", r.gbs(allF, otherAFU), nil, "an id of all f, want the ids"},
		{"AFU of all f", "kernel-6.1-one-card", r.gbs(pac, allF), nil, "an id of all f, want the ids"},
		{"dead card", "kernel-6.1-dead-card", good, nil, "the card does not answer, its ids are all f"},
		{"FME without driver", "kernel-6.1-fme-unbound", good, nil, "dfl-fme.0 has no interface ID: bind its driver"},
		{"port without driver", "kernel-6.1-port-unbound", good, nil, "dfl-port.0: found no driver, want it bound: for f in unbind bind"},
		{"port without AFU", "kernel-6.1-several-functions", r.gbs("98b4d5bc98ba5f4b98d9a2841ccf11b0", otherAFU), nil, "dfl-port.0 has no AFU id, so the result"},
		{"no such port", "kernel-6.1-one-card", good, func(_ *rig, _ *fpga.Card, port *fpga.Port) { port.Number = 3 }, "port 3 of card 01:00.0: found none, want one of its ports: 0"},
		{"no FME", "kernel-6.1-one-card", good, func(_ *rig, card *fpga.Card, _ *fpga.Port) { card.FME = "" }, "the card has no FME: program a virtual function"},
		{"card has left", "kernel-6.1-one-card", good, func(r *rig, _ *fpga.Card, _ *fpga.Port) {
			must.Succeed(t, os.RemoveAll(r.host.Sys))
		}, "the card has left"},
		{"another card in its place", "kernel-6.1-one-card", good, func(r *rig, _ *fpga.Card, _ *fpga.Port) { r.write("compat_id", other) },
			`FME at "0000:01:00.0" with interface "` + other + `", want "0000:01:00.0" and "` + pac + `"`},
		{"node of the FME missing", "kernel-6.1-one-card", good, func(r *rig, _ *fpga.Card, _ *fpga.Port) { os.Remove(r.host.Dev + "/dfl-fme.0") },
			"no device node: lstat DEV/dfl-fme.0"},
		{"node of the port a link", "kernel-6.1-one-card", good, func(r *rig, _ *fpga.Card, _ *fpga.Port) {
			os.Remove(r.host.Dev + "/dfl-port.0")
			os.Symlink("/dev/null", r.host.Dev+"/dfl-port.0")
		}, "DEV/dfl-port.0: found mode 0120777, want a character device"},
		{"nodes no devices", "kernel-6.1-one-card", good, func(r *rig, _ *fpga.Card, _ *fpga.Port) { r.p.Host.Simulated = false },
			"DEV/dfl-fme.0: found mode 0100644, want a character device"},
		{"lock in a directory of others", "kernel-6.1-one-card", good, func(r *rig, _ *fpga.Card, _ *fpga.Port) {
			os.Mkdir(r.p.LockDir, 0o755)
			os.Chmod(r.p.LockDir, 0o777)
		}, "chmod go-w"},
		{"file got shorter", "kernel-6.1-one-card", r.open("y.gbs", bits.GBS(bits.Metadata(pac, otherAFU), raw)), func(r2 *rig, _ *fpga.Card, _ *fpga.Port) {
			os.Truncate(filepath.Join(r.dir, "y.gbs"), 300)
		}, "y.gbs: found 300 bytes, want"},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := newRig(t, test.board)
			card, port := r.card("01:00.0")
			if test.change != nil {
				test.change(r, &card, &port)
			}
			err := r.p.Program(t.Context(), card, port, test.b)
			r.refused(err, "card 01:00.0", test.want)
			compare.Empty(t, "requests", r.requests)
		})
	}
}

// A card isn't programmed while another process has its FME or port open, in which case the drivers reject an exclusive
// open.
func TestProgramInUse(t *testing.T) {
	for _, node := range []string{"dfl-fme.0", "dfl-port.0"} {
		r := newRig(t, "kernel-6.1-one-card")
		r.p.Always = true
		r.p.SetOpen(func(path string, flags int, perm uint32) (int, error) {
			if filepath.Base(path) == node && flags&syscall.O_EXCL != 0 {
				return -1, syscall.EBUSY
			}
			return syscall.Open(path, flags, perm)
		})
		card, port := r.card("01:00.0")
		r.refused(r.p.Program(t.Context(), card, port, r.gbs(pac, afu)), "card 01:00.0, port 0: ",
			"DEV/"+node+": device or resource busy: another process has it open: can-pull names it")
		compare.Empty(t, node+": requests", r.requests)
	}
}

// refused checks that err has this prefix, contains want, and is a single line.
func (r *rig) refused(err error, prefix, want string) {
	r.t.Helper()
	if err == nil {
		r.t.Fatalf("no error, want %q", want)
	}
	text := strings.ReplaceAll(err.Error(), r.host.Dev, "DEV")
	if !strings.HasPrefix(text, prefix) || !strings.Contains(text, want) || strings.Contains(text, "\n") {
		r.t.Errorf("%q, want %q", text, prefix+"…"+want)
	}
}

// A port that a failed programming attempt left disabled is rejected, and the error says how to fix it. The test sets
// the error directly, because a regular file can't return EBUSY.
func TestDisabledPort(t *testing.T) {
	r := newRig(t, "kernel-6.1-one-card")
	card, port := r.card("01:00.0")
	port.AFUID, port.AFUErr = "", &fs.PathError{Op: "read", Path: "afu_id", Err: syscall.EBUSY}
	r.refused(fpga.Fits(card, port, r.gbs(pac, otherAFU)), "read afu_id: device or resource busy: the port is disabled",
		"for f in unbind bind; do echo 0000:01:00.0 > /sys/bus/pci/drivers/dfl-pci/$f; done")
}

func TestProgramFails(t *testing.T) {
	for _, test := range []struct {
		name, board string
		errno       syscall.Errno
		change      func(r *rig, arg unsafe.Pointer)
		want        string
	}{
		{"EIO", "kernel-6.1-one-card", syscall.EIO, func(r *rig, _ unsafe.Pointer) {
			r.write("status", "reconfig CRC error\nreconfig fifo overflow error\n")
		}, "the card reports reconfig CRC error, reconfig fifo overflow error, want a bitstream that is whole"},
		{"EIO without reason", "kernel-6.1-one-card", syscall.EIO, nil, "the card reports no reason"},
		{"EIO of opae", "opae-one-card", syscall.EIO, func(_ *rig, arg unsafe.Pointer) { fpga.SetStatus(arg, 1<<1|1<<6|1<<9) },
			"the card reports CRC error, secure load error, error bit 9"},
		{"ETIMEDOUT", "kernel-6.1-one-card", syscall.ETIMEDOUT, nil, "did not finish in time"},
		{"EINVAL", "kernel-6.1-one-card", syscall.EINVAL, nil, "the driver refuses the request, want a card that answers: dmesg"},
		{"EINVAL of opae", "opae-one-card", syscall.EINVAL, nil, "not a multiple of 4"},
		{"ENODEV", "kernel-6.1-one-card", syscall.ENODEV, nil, "the card has left, or its driver"},
		{"ENOTTY", "kernel-6.1-one-card", syscall.ENOTTY, nil, "a simulated card cannot be programmed"},
		{"EPERM", "kernel-6.1-one-card", syscall.EPERM, nil, "want root"},
		{"EACCES", "kernel-6.1-one-card", syscall.EACCES, nil, "want root"},
		{"EFAULT", "kernel-6.1-one-card", syscall.EFAULT, nil, "the file became shorter"},
		{"ENOMEM", "kernel-6.1-one-card", syscall.ENOMEM, nil, "the kernel has no memory"},
		{"card left", "kernel-6.1-one-card", syscall.EIO, func(r *rig, _ unsafe.Pointer) { os.RemoveAll(r.host.Sys) }, "the card has left meanwhile"},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := newRig(t, test.board)
			cards, err := fpga.Cards(r.host)
			if err != nil || len(cards) != 1 {
				t.Fatal(cards, err)
			}
			card := cards[0]
			r.answer = func(arg unsafe.Pointer) error {
				if test.change != nil {
					test.change(r, arg)
				}
				return test.errno
			}
			err = r.p.Program(t.Context(), card, card.Ports[0], r.gbs(card.InterfaceID, otherAFU))
			r.refused(err, "card "+card.ID()+", port 0: programming: ", test.want)
			compare.ErrorIs(t, "error", test.errno, err)
		})
	}
}

// If a different card is plugged into the slot while the bitstream is being unpacked, it isn't programmed.
func TestProgramCardReplacedMeanwhile(t *testing.T) {
	r := newRig(t, "kernel-6.1-one-card")
	card, port := r.card("01:00.0")
	b := r.gbs(pac, otherAFU)
	r.answer = func(unsafe.Pointer) error { t.Error("programmed"); return nil }
	r.p.Begin = func() error { r.write("compat_id", otherAFU); return nil }
	r.refused(r.p.Program(t.Context(), card, port, b), "card 01:00.0, port 0: ", "another card has taken its place")
}

// The request succeeds, but afterwards the port has a different AFU or is gone.
func TestProgramReadsBack(t *testing.T) {
	r := newRig(t, "kernel-6.1-one-card")
	card, port := r.card("01:00.0")
	b := r.gbs(pac, otherAFU)
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		err := r.p.Program(t.Context(), card, port, b)
		r.refused(err, "card 01:00.0, port 0: ", "AFU after programming: found "+afu+", want "+otherAFU)
		compare.Equal(t, "waited", time.Second, time.Since(begin))
		// The AFU shows up a little later.
		time.AfterFunc(500*time.Millisecond, func() { r.write("afu_id", otherAFU) })
		must.Succeed(t, r.p.Program(t.Context(), card, port, b))
		r.answer = func(unsafe.Pointer) error { return os.RemoveAll(r.host.Sys) }
		begin = time.Now()
		err = r.p.Program(t.Context(), card, port, r.gbs(pac, afu))
		r.refused(err, "card 01:00.0, port 0: ", "programmed, but not verified: the card has left")
		if waited := time.Since(begin); waited > 0 {
			t.Errorf("waited %s for a card that has left, want 0s", waited)
		}
	})
}

// Program returns at its deadline even if the driver doesn't respond. The lock stays held until the request returns.
func TestProgramDeadline(t *testing.T) {
	r := newRig(t, "kernel-6.1-one-card")
	card, port := r.card("01:00.0")
	b := r.gbs(pac, otherAFU)
	synctest.Test(t, func(t *testing.T) {
		answer := make(chan error)
		r.answer = func(unsafe.Pointer) error { return <-answer }
		ctx, cancel := context.WithTimeout(t.Context(), 90*time.Second)
		defer cancel()
		begin := time.Now()
		err := r.p.Program(ctx, card, port, b)
		r.refused(err, "card 01:00.0, port 0: ", "the driver has not answered (context deadline exceeded)")
		if waited := time.Since(begin); waited > 91*time.Second || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("waited %s, %v, want 90s and its error", waited, err)
		}
		again, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		r.refused(r.p.Program(again, card, port, b), "card 01:00.0, port 0: ", "0000:01:00.0.lock: held by another process")
		answer <- syscall.EIO
		synctest.Wait()
		r.answer = func(unsafe.Pointer) error { r.write("afu_id", otherAFU); return nil }
		must.Succeed(t, r.p.Program(t.Context(), card, port, b))
	})
}

func TestReleaseAndAssign(t *testing.T) {
	for _, test := range []struct {
		name, board, device string
		number              int
		assign              bool
		errno               syscall.Errno
		request             uintptr
		want                string
	}{
		{"release", "kernel-6.1-two-ports", "01:00.0", 1, false, 0, 0x4004b681, ""},
		{"assign", "kernel-6.1-port-released", "01:00.0", 0, true, 0, 0x4004b682, ""},
		{"release, opae", "opae-one-card", "82:00.0", 0, false, 0, 0xb581, ""},
		{"assign, opae", "opae-one-card", "82:00.0", 2, true, 0, 0xb582, ""},
		{"port open", "kernel-6.1-two-ports", "01:00.0", 1, false, syscall.EBUSY, 0x4004b681, "port 1: release: device or resource busy: another process has the port open: DEV/dfl-port.1: can-pull names it"},
		{"released already", "kernel-6.1-port-released", "01:00.0", 0, false, syscall.EBUSY, 0x4004b681, "the port is released already"},
		{"assigned already", "kernel-6.1-two-ports", "01:00.0", 1, true, syscall.EBUSY, 0x4004b682, "the port is assigned already"},
		{"no such port", "kernel-6.1-two-ports", "01:00.0", 7, true, syscall.EINVAL, 0x4004b682, "the card has no such port"},
		{"simulated", "kernel-6.1-two-ports", "01:00.0", 0, true, syscall.ENOTTY, 0x4004b682, "a simulated card cannot be programmed"},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := newRig(t, test.board)
			card, _ := r.card(test.device)
			r.answer = func(unsafe.Pointer) error {
				if test.errno != 0 {
					return test.errno
				}
				return nil
			}
			do := r.p.Release
			if test.assign {
				do = r.p.Assign
			}
			err := do(t.Context(), card, test.number)
			if test.want != "" {
				r.refused(err, "card "+card.ID()+", port "+strconv.Itoa(test.number)+": ", test.want)
			} else if err != nil {
				t.Error(err)
			}
			if !slices.Equal(r.requests, []uintptr{test.request}) || r.number != uint32(test.number) {
				t.Errorf("requests %#x of port %d, want %#x, %d", r.requests, r.number, test.request, test.number)
			}
		})
	}
}

func TestReleaseRefusesNumber(t *testing.T) {
	for _, number := range []int{-1, 256, 1 << 32} {
		r := newRig(t, "kernel-6.1-two-ports")
		card, _ := r.card("01:00.0")
		r.refused(r.p.Release(t.Context(), card, number), "card 01:00.0, port ", "want 0 to 255")
		compare.Empty(t, fmt.Sprintf("port %d: requests", number), r.requests)
	}
}

// Without SetIoctl, the request goes to the regular file that stands in for a simulated card's device node.
func TestSimulatedCard(t *testing.T) {
	r := newRig(t, "kernel-6.1-one-card")
	card, port := r.card("01:00.0")
	p := fpga.Programmer{Host: r.host, LockDir: r.p.LockDir, Store: r.p.Store}
	r.refused(p.Program(t.Context(), card, port, r.gbs(pac, otherAFU)), "card 01:00.0, port 0: programming: ", "a simulated card cannot be programmed")
}

// Programming 32 MiB takes at most 8 MiB of anonymous memory, even while the driver is reading the data.
func TestMemory(t *testing.T) {
	const large, most = 32 << 20, 8 << 20
	r := newRig(t, "kernel-6.1-one-card")
	card, port := r.card("01:00.0")
	for _, test := range []struct {
		file string
		data []byte
		afu  string
	}{
		{"x.gbs", bits.GBS(bits.Metadata(pac, otherAFU), nil), otherAFU},
		{"x.aocx", bits.AOCX(bits.Hash, "", bits.GBS(bits.Metadata(pac, bits.OpenCL), make([]byte, large))), bits.OpenCL},
	} {
		path := filepath.Join(r.dir, test.file)
		must.Succeed(t, os.WriteFile(path, test.data, 0o644))
		if filepath.Ext(path) == ".gbs" {
			must.Succeed(t, os.Truncate(path, int64(len(test.data))+large))
		}
		b := must.Value(programming.Open(path))(t)
		defer b.Close()
		debug.FreeOSMemory() // otherwise the test's own garbage would hide how much memory is used
		before, during := rssAnon(t), int64(0)
		r.p.SetIoctl(func(_ int, _ uintptr, arg unsafe.Pointer) error {
			data := fpga.ProgramArgAt(arg).Data
			sum := 0
			for i := 0; i < len(data); i += 4096 {
				sum += int(data[i])
			}
			if during = rssAnon(t); sum != 0 || len(data) != large {
				t.Errorf("%d bytes with sum %d, want %d, 0", len(data), sum, large)
			}
			r.write("afu_id", test.afu)
			return nil
		})
		must.Succeed(t, r.p.Program(t.Context(), card, port, b))
		t.Logf("%s: %d KiB of anonymous memory before, %d KiB while it was programmed", test.file, before>>10, during>>10)
		if during == 0 || during > before+most {
			t.Errorf("%s: %d bytes of anonymous memory, %d before; want at most %d more", test.file, during, before, most)
		}
	}
}

func rssAnon(t *testing.T) int64 {
	status := must.Value(os.ReadFile("/proc/self/status"))(t)
	m := regexp.MustCompile(`RssAnon:\s+(\d+) kB`).FindSubmatch(status)
	if m == nil {
		t.Error("no RssAnon in /proc/self/status")
		return 0
	}
	n, _ := strconv.ParseInt(string(m[1]), 10, 64)
	return n << 10
}

// On a real host, the device node must be a device with the card's number. The test uses /dev/null.
func TestDeviceNodes(t *testing.T) {
	for _, test := range []struct {
		name, dev string // the number in sysfs
		want      string
	}{
		{"same number", "1:3", ""},
		{"another number", "1:5", "found device number 1:3, want 1:5: not the node of this device"},
		{"no number", "x", `dev: found "x", want a device number`},
	} {
		r := newRig(t, "kernel-6.1-one-card")
		r.p.Host.Simulated = false
		r.write("dfl-fme.0/dev", "1:3\n")
		r.write("dfl-port.0/dev", test.dev+"\n")
		for _, name := range []string{"dfl-fme.0", "dfl-port.0"} {
			path := filepath.Join(r.host.Dev, name)
			if err := errors.Join(os.Remove(path), syscall.Mknod(path, syscall.S_IFCHR|0o600, 1<<8|3)); err != nil {
				t.Skip(err)
			}
			if f, err := os.Open(path); err != nil {
				t.Skip(err) // the file system doesn't allow devices
			} else {
				f.Close()
			}
		}
		card, port := r.card("01:00.0")
		r.answer = func(unsafe.Pointer) error { r.write("afu_id", otherAFU); return nil }
		err := r.p.Program(t.Context(), card, port, r.gbs(pac, otherAFU))
		if test.want != "" {
			r.refused(err, "card 01:00.0, port 0: ", test.want)
		} else if err != nil {
			t.Error(err)
		}
		compare.Equal(t, fmt.Sprintf("%s: requests %#x", test.name, r.requests), test.want == "", len(r.requests) == 1)
	}
}
