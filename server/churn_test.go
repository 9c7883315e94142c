package server_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"b-com.com/accelerator-device-plugin/internal/sim/simkubelet"
	"b-com.com/accelerator-device-plugin/server"
)

// The directory comes, moves and goes faster than it can be watched: the watch
// neither deadlocks nor panics, and is on the last one.
func TestDirectoryChurn(t *testing.T) {
	r := newRig(t, func(c *server.Config) { c.PollInterval = time.Millisecond })
	r.run()
	dir := r.cfg.KubeletDir
	if err := os.Remove(dir); err != nil {
		t.Fatal(err)
	}
	for began := time.Now(); time.Since(began) < 3*time.Second; {
		if err := churn(dir); err != nil {
			t.Fatal(err)
		}
	}
	r.devices.set(port("a"))
	k := r.kubelet(simkubelet.Behaviour{})
	r.awaitList(k)
	r.awaitReady()
	if err := os.Remove(r.socket()); err != nil {
		t.Fatal(err)
	}
	r.awaitEvent("socket.lost", 1)
	if took := r.stop(); took > 2*time.Second {
		t.Errorf("stopping took %v", took)
	}
}

// churn makes the directory and has it gone again, right after more events that
// concern us than can be handled meanwhile: the watch is not there any more when
// that of the move is.
func churn(dir string) error {
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	<-time.After(3 * time.Millisecond) // it may be watched by then
	from, to := filepath.Join(dir, "accelerator-0"), filepath.Join(dir, "accelerator-1")
	if err := os.WriteFile(from, nil, 0o600); err != nil {
		return err
	}
	for range 20 {
		if err := os.Rename(from, to); err != nil {
			return err
		}
		from, to = to, from
	}
	if err := os.Rename(from, dir+".file"); err != nil {
		return err
	}
	if err := os.Rename(dir, dir+".old"); err != nil {
		return err
	}
	return os.Remove(dir + ".old")
}
