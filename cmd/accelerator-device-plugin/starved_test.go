package main

import (
	"maps"

	"net"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"b-com.com/accelerator-device-plugin/server/standin"
)

// limitFiles sets how many descriptors the daemon may have, as ulimit -n does.
func (r *running) limitFiles(n uint64) {
	r.t.Helper()
	limit := syscall.Rlimit{Cur: n, Max: n}
	_, _, errno := syscall.Syscall6(syscall.SYS_PRLIMIT64, uintptr(r.Process.Pid), syscall.RLIMIT_NOFILE, uintptr(unsafe.Pointer(&limit)), 0, 0, 0)
	if errno != 0 {
		r.t.Fatal(errno)
	}
}

// connect opens connections to the daemon that say nothing.
func connect(t *testing.T, address string, n int) (hangUp func()) {
	t.Helper()
	var all []net.Conn
	hangUp = func() {
		for _, c := range all {
			c.Close()
		}
	}
	t.Cleanup(hangUp)
	for range n {
		c, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, c)
	}
	return hangUp
}

// Somebody's connections take every descriptor that the daemon may have: no device
// turns unhealthy, devices are given out, and it is said once. What happens to a card
// meanwhile is found when the connections are gone.
func TestOutOfDescriptors(t *testing.T) {
	const every = 100 * time.Millisecond
	r, node, kubelet := serveBinary(t, "--health-interval", every.String(), "--recovery-hold=0s", "--log-level=info")
	address := r.await("http.served")["address"].(string)
	if err := node.Plug(cardA); err != nil {
		t.Fatal(err)
	}
	await := func(want map[string]bool) {
		t.Helper()
		if _, err := kubelet.AwaitList(t.Context(), testResource, func(l standin.List) bool { return maps.Equal(told(l), want) }); err != nil {
			t.Fatal(err)
		}
	}
	await(map[string]bool{"3b:00.0": true, "3b:00.0-p1": true})
	before := kubelet.Newest(testResource)

	r.limitFiles(40)
	hangUp := connect(t, address, 260)
	r.await("daemon.starved")
	earlier := len(r.early)
	if err := node.Set(cardA.Address, 1, "errors/errors", "0x4000000000000"); err != nil {
		t.Fatal(err)
	}
	tick := time.NewTicker(every / 2)
	defer tick.Stop()
	for range 20 {
		<-tick.C
		if _, err := kubelet.Allocate(t.Context(), testResource, "3b:00.0"); err != nil {
			t.Errorf("Allocate out of descriptors: %v", err)
		}
	}
	if now := kubelet.Newest(testResource); now.Number != before.Number {
		t.Errorf("list %d sent out of descriptors, want none after %d: %v", now.Number, before.Number, now.Devices)
	}
	hangUp()
	await(map[string]bool{"3b:00.0": true, "3b:00.0-p1": false})
	r.await("daemon.recovered")
	for _, line := range r.early[earlier:] {
		switch line["event"] {
		case "allocate.served", "device.health", "list.sent":
		default:
			t.Errorf("line between those of begin and end: %v", line)
		}
	}
}
