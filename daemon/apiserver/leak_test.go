package apiserver_test

import (
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"b-com.com/accelerator-device-plugin/test/compare"
)

// heap returns the number of bytes in use after two garbage collections, because cleanups run after the first one.
func heap() uint64 {
	var m runtime.MemStats
	for range 2 {
		runtime.GC()
	}
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// Every 401 response leads to a new connection and a new client-go transport, and client-go caches transports. Their
// memory is freed a few minutes later.
func TestFailuresLeaveNoMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		listener := newNetwork()
		r := follow(t, listener, func(r *rig) { prepared(r); r.UseToken("token-2") })
		after(10 * time.Minute)
		before, connections := heap(), listener.count.Load()
		after(time.Hour)
		grown, failures := int64(heap())-int64(before), int64(listener.count.Load()-connections)
		if failures < 100 || grown > failures*4<<10 {
			t.Errorf("found %d more bytes after %d failures", grown, failures)
		}
		r.end()
		synctest.Wait()
		compare.Equal(t, "open connections", 0, listener.open.Load())
	})
}
