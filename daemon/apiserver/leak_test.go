package apiserver_test

import (
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"b-com.com/accelerator-device-plugin/test/compare"
)

// heap returns the bytes in use after two collections: cleanups run after the first one.
func heap() uint64 {
	var m runtime.MemStats
	for range 2 {
		runtime.GC()
	}
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// Each answer 401 takes a new connection and a new transport of client-go, whose cache keeps
// transports. Their memory is free some minutes later.
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
