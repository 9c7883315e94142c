package main

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// pair returns the two ends of a socket pair: ours and qemu's.
func pair(t testing.TB) (ours, theirs *net.UnixConn) {
	t.Helper()
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	var ends [2]*net.UnixConn
	for i, fd := range fds {
		file := os.NewFile(uintptr(fd), "end")
		conn, err := net.FileConn(file)
		if err := errors.Join(err, file.Close()); err != nil {
			t.Fatal(err)
		}
		ends[i] = conn.(*net.UnixConn)
		t.Cleanup(func() { ends[i].Close() })
	}
	return ends[0], ends[1]
}

// serving starts serve on a socket pair. The channel is closed when serve has returned.
func serving(t testing.TB) (qemu *net.UnixConn, ended chan struct{}) {
	ours, theirs := pair(t)
	ended = make(chan struct{})
	f := functionOf(t, "a10")
	go func() {
		defer close(ended)
		f.serve(ours)
	}()
	return theirs, ended
}

func await(t testing.TB, ended chan struct{}) {
	t.Helper()
	select {
	case <-ended:
	case <-time.After(10 * time.Second):
		t.Fatal("serve has not returned after 10 s")
	}
}

// command returns a command of qemu. Its payload consists of the given integers, each with
// the width of its type.
func command(number uint32, payload ...any) []byte {
	var body bytes.Buffer
	for _, v := range payload {
		_ = binary.Write(&body, binary.LittleEndian, v)
	}
	head := binary.LittleEndian.AppendUint32(nil, number)
	head = binary.LittleEndian.AppendUint32(head, 0)
	return append(binary.LittleEndian.AppendUint64(head, uint64(body.Len())), body.Bytes()...)
}

func TestServe(t *testing.T) {
	const base = 0xfe900000
	qemu, ended := serving(t)
	for _, tc := range []struct {
		name    string
		command []byte
		want    uint64
	}{
		{"vendor", command(configRead, uint32(0), uint32(0), uint32(2)), 0x8086},
		{"BAR 0", command(configWrite, uint32(0x10), uint32(base), uint32(4)), 0},
		{"BAR 0 as written", command(configRead, uint32(0x10), uint32(0), uint32(4)), base},
		{"GUID of the FME", command(barRead, uint64(base+0x08), uint64(0), uint32(8)), 0x82fe38f0f9e17764},
		{"write", command(barWrite, uint64(base+fmePower+0x10), uint64(7), uint32(8)), 0},
		{"read", command(barRead, uint64(base+fmePower+0x10), uint64(0), uint32(4)), 7},
		{"below BAR 0", command(barRead, uint64(base-8), uint64(0), uint32(8)), ones},
		{"above BAR 0", command(barRead, uint64(base+barSize), uint64(0), uint32(8)), ones},
		{"wider than a register", command(barRead, uint64(base+fmePower+0x10), uint64(0), uint32(64)), 7},
		{"reset", command(reset), 0},
	} {
		if _, err := qemu.Write(tc.command); err != nil {
			t.Fatalf("%s: %v", tc.name, err)
		}
		got := make([]byte, 24)
		if _, err := io.ReadFull(qemu, got); err != nil {
			t.Fatalf("%s: %v", tc.name, err)
		}
		if diff := cmp.Diff(command(answer, tc.want), got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tc.name, diff)
		}
	}
	qemu.Close()
	await(t, ended)
}

// Commands without an answer are skipped; an invalid command ends serve.
func TestServeOddities(t *testing.T) {
	oversized := command(configRead)
	binary.LittleEndian.PutUint64(oversized[8:], maxPayload+1)
	read := command(configRead, uint32(0), uint32(0), uint32(2))
	for _, tc := range []struct {
		name    string
		bytes   []byte
		answers int
	}{
		{"nothing", nil, 0},
		{"memory's layout", append(command(syncSysmem, make([]byte, 200)), read...), 1},
		{"an interrupt's descriptor", append(command(setIRQ), read...), 1},
		{"unknown", append(command(77, uint64(1)), read...), 1},
		{"payload too short", append(command(barRead, uint64(1)), read...), 1},
		{"half a header", read[:7], 0},
		{"half a payload", read[:20], 0},
		{"oversized", append(oversized, read...), 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			qemu, ended := serving(t)
			if _, err := qemu.Write(tc.bytes); err != nil {
				t.Fatal(err)
			}
			if err := qemu.CloseWrite(); err != nil {
				t.Fatal(err)
			}
			got, err := io.ReadAll(qemu)
			if err != nil && !errors.Is(err, syscall.ECONNRESET) || len(got) != 24*tc.answers {
				t.Errorf("got %d bytes, %v; want %d answers", len(got), err, tc.answers)
			}
			await(t, ended)
		})
	}
}

// serve does not wait for a payload that is too large.
func TestServeOversized(t *testing.T) {
	qemu, ended := serving(t)
	head := command(configRead)
	binary.LittleEndian.PutUint64(head[8:], maxPayload+1)
	if _, err := qemu.Write(head); err != nil {
		t.Fatal(err)
	}
	await(t, ended)
}

// A command can be received in parts.
func TestServeInParts(t *testing.T) {
	qemu, ended := serving(t)
	for _, b := range command(configRead, uint32(0), uint32(0), uint32(2)) {
		if _, err := qemu.Write([]byte{b}); err != nil {
			t.Fatal(err)
		}
	}
	got := make([]byte, 24)
	if _, err := io.ReadFull(qemu, got); err != nil || binary.LittleEndian.Uint64(got[16:]) != 0x8086 {
		t.Errorf("got %x, %v; want 0x8086", got, err)
	}
	qemu.Close()
	await(t, ended)
}

// receive closes the descriptors that are sent with a command: reading the pipe's other end
// returns EOF.
func TestReceiveClosesDescriptors(t *testing.T) {
	ours, qemu := pair(t)
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if _, _, err := qemu.WriteMsgUnix(command(setIRQ), syscall.UnixRights(int(w.Fd()), int(w.Fd())), nil); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if a, err := receive(ours); err != nil || a.command != setIRQ {
		t.Fatalf("got %+v, %v; want command %d", a, err, setIRQ)
	}
	if err := r.SetReadDeadline(time.Now().Add(10 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if n, err := r.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("got %d, %v; want EOF: a descriptor of the pipe is still open", n, err)
	}
}

func FuzzServe(f *testing.F) {
	f.Add(command(configRead, uint32(0), uint32(0), uint32(2)))
	f.Add(append(command(configWrite, uint32(0x10), ^uint32(0), uint32(4)), command(barRead, uint64(8), uint64(0), uint32(8))...))
	f.Add(command(barWrite, uint64(fmePR+prControl), ^uint64(0), uint32(8)))
	f.Add(command(barWrite, uint64(barSize-1), ^uint64(0), ^uint32(0)))
	f.Add(command(barRead, ^uint64(0), uint64(0), uint32(1)))
	f.Fuzz(func(t *testing.T, text []byte) {
		qemu, ended := serving(t)
		read := make(chan struct{})
		go func() {
			defer close(read)
			_, _ = io.Copy(io.Discard, qemu)
		}()
		_, _ = qemu.Write(text) // fails if serve has returned already
		_ = qemu.CloseWrite()
		await(t, ended)
		<-read
	})
}
