package server_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"b-com.com/accelerator-device-plugin/server"
	"b-com.com/accelerator-device-plugin/sim/simkubelet"
	"b-com.com/accelerator-device-plugin/test/patient"
)

// The directory is created, renamed and removed faster than it can be watched: the watch
// neither deadlocks nor panics, and watches the last directory.
func TestDirectoryChurn(t *testing.T) {
	r := newRig(t, func(c *server.Config) { c.PollInterval = time.Millisecond })
	r.run()
	dir := r.cfg.KubeletDir
	if err := os.Remove(dir); err != nil {
		t.Fatal(err)
	}
	for range 200 {
		if err := churn(t, dir); err != nil {
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
	r.stop()
}

// churn creates the directory, causes more relevant events than can be handled at once, and renames
// and removes the directory. So the watch is gone when the event of the renaming is handled.
func churn(t *testing.T, dir string) error {
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	patient.Elapse(t, 3*time.Millisecond) // it may be watched by then
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
