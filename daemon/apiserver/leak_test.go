package apiserver_test

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"

	"b-com.com/accelerator-device-plugin/daemon/apiserver"
	"b-com.com/accelerator-device-plugin/sim/simapiserver"
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
		if n := listener.open.Load(); n != 0 {
			t.Errorf("found %d open connections, want none", n)
		}
	})
}

// A transport with the files of a client certificate has goroutines that watch them. They end
// after the transport is no longer used.
func TestFailuresLeaveNoGoroutines(t *testing.T) {
	server := simapiserver.Start(nil)
	dir := t.TempDir()
	cert, key := certificate(t)
	for file, text := range map[string]string{
		"ca.crt": string(server.CA()), "cert": cert, "key": key, "kubeconfig": kubeconfig(
			"server: 'https://"+server.Address()+"', certificate-authority: ca.crt", "client-certificate: cert, client-key: key"),
	} {
		if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	server.Close()
	goroutines := runtime.NumGoroutine()
	client, err := apiserver.Open(apiserver.Config{Kubeconfig: filepath.Join(dir, "kubeconfig")}, zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	w := client.Writer(t.Context(), name)
	for range 50 {
		if err := w.Create(onNode); err == nil {
			t.Fatal("Create without a server: found no error, want one")
		}
	}
	w.Close()
	for limit := time.Now().Add(10 * time.Second); runtime.NumGoroutine() > goroutines; runtime.GC() {
		if time.Now().After(limit) {
			t.Fatalf("found %d goroutines, want %d", runtime.NumGoroutine(), goroutines)
		}
	}
}
