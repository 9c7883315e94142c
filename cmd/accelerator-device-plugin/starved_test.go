package main

import (
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"b-com.com/accelerator-device-plugin/sim/simkubelet"
	"b-com.com/accelerator-device-plugin/test/cmdtest"
	"b-com.com/accelerator-device-plugin/test/compare"
	"b-com.com/accelerator-device-plugin/test/must"
)

// limitFiles sets the daemon's descriptor limit, as ulimit -S -n does, and returns the previous limit. Open descriptors
// above the limit stay open.
func limitFiles(r *cmdtest.Running, n uint64) (was uint64) {
	r.T.Helper()
	var old syscall.Rlimit
	call := func(limit, old *syscall.Rlimit) {
		_, _, errno := syscall.Syscall6(syscall.SYS_PRLIMIT64, uintptr(r.Process.Pid), syscall.RLIMIT_NOFILE,
			uintptr(unsafe.Pointer(limit)), uintptr(unsafe.Pointer(old)), 0, 0)
		if errno != 0 {
			r.T.Fatal(errno)
		}
	}
	call(nil, &old)
	call(&syscall.Rlimit{Cur: n, Max: old.Max}, nil)
	return old.Cur
}

// connect opens connections to the daemon without sending anything on them.
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
		c := must.Value(net.Dial("tcp", address))(t)
		all = append(all, c)
	}
	return hangUp
}

// If connections use up all of the daemon's descriptors, no device becomes unhealthy, devices can still be allocated,
// and one line is logged. Changes to a card are noticed once the connections are closed.
func TestOutOfDescriptors(t *testing.T) {
	const every = 100 * time.Millisecond
	r, node, kubelet := cmdtest.Serve(t, "--health-interval", every.String(), "--recovery-hold=0s", "--log-level=info", "--cdi-dir", t.TempDir())
	address := r.Await("http.served")["address"].(string)
	must.Succeed(t, node.Plug(cardA))
	await := func(want map[string]bool) {
		t.Helper()
		must.Value(kubelet.AwaitList(t.Context(), testResource, func(l simkubelet.List) bool { return maps.Equal(told(l), want) }))(t)
	}
	await(map[string]bool{"3b:00.0": true, "3b:00.0-p1": true})
	before := kubelet.Newest(testResource)

	limitFiles(r, 40)
	hangUp := connect(t, address, 260)
	r.Await("daemon.starved")
	earlier := len(r.Early)
	must.Succeed(t, node.Set(cardA.Address, 1, "errors/errors", "0x4000000000000"))
	tick := time.NewTicker(every / 2)
	defer tick.Stop()
	for range 20 {
		<-tick.C
		compare.NoError(t, "Allocate out of descriptors", compare.ErrorOf(kubelet.Allocate(t.Context(), testResource, "3b:00.0")))
	}
	compare.Equal(t, "newest list out of descriptors", before.Number, kubelet.Newest(testResource).Number)
	hangUp()
	await(map[string]bool{"3b:00.0": true, "3b:00.0-p1": false})
	r.Await("daemon.recovered")
	for _, line := range r.Early[earlier:] {
		switch line["event"] {
		case "allocate.served", "device.health", "list.sent":
		case "holders.unknown", "holders.known": // the checkpoint contains the allocated device's nodes
			compare.Equal(t, fmt.Sprintf("source in the line between begin and end, %v", line), "checkpoint", line["source"])
		default:
			t.Errorf("line between those of begin and end: %v", line)
		}
	}
}

// Without descriptors, the open stream keeps working. As soon as there are descriptors again, the daemon registers with
// a kubelet that was restarted in the meantime, and watches the device node directory again.
func TestKubeletRestartsOutOfDescriptors(t *testing.T) {
	r, node, kubelet := cmdtest.Serve(t, "--health-interval=100ms", "--log-level=info")
	must.Succeed(t, node.Plug(cardB))
	await := func(k *simkubelet.Kubelet) {
		t.Helper()
		must.Value(k.AwaitList(t.Context(), testResource, func(l simkubelet.List) bool { return maps.Equal(told(l), map[string]bool{"5e:00.0": true}) }))(t)
	}
	await(kubelet)
	limit := limitFiles(r, 3)
	r.Await("daemon.starved")
	compare.NoError(t, "Allocate", compare.ErrorOf(kubelet.Allocate(t.Context(), testResource, "5e:00.0")))
	must.Succeed(t, os.Rename(node.Dev, node.Dev+".old"), os.Rename(node.Dev+".old", node.Dev))
	r.Await("source.lost")
	kubelet.Stop()
	again := must.Value(simkubelet.Start(t.Context(), filepath.Join(filepath.Dir(node.Dev), "kubelet"), simkubelet.Behaviour{}))(t)
	t.Cleanup(again.Stop)
	compare.Contains(t, "register.failed", syscall.EMFILE.Error(), r.Await("register.failed")["error"].(string))
	limitFiles(r, limit)
	await(again)
	r.Await("source.recovered")
	r.Await("daemon.recovered")
}
