package deviceplugin_test

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"go.uber.org/zap"

	"b-com.com/accelerator-device-plugin/cmd/internal/deviceplugin"
	"b-com.com/accelerator-device-plugin/daemon/config"
	"b-com.com/accelerator-device-plugin/internal/metrics"
	"b-com.com/accelerator-device-plugin/sim/simkubelet"
	"b-com.com/accelerator-device-plugin/sim/simnode"
	"b-com.com/accelerator-device-plugin/test/cmdtest"
	"b-com.com/accelerator-device-plugin/test/compare"
	"b-com.com/accelerator-device-plugin/test/must"
	"b-com.com/accelerator-device-plugin/test/patient"
)

// A read that hangs makes its own card unhealthy. It delays neither other cards nor the end of the daemon.
func TestReadThatHangs(t *testing.T) {
	t.Parallel()
	d := startDaemon(t, func(c *config.Config) { c.HealthInterval = 100 * time.Millisecond })
	d.plug(cardA, cardB)
	d.await("plugged", health{"3b:00.0": true, "3b:00.0-p1": true, "5e:00.0": true})
	release := d.makeFIFO(d.node.PortDir(cardA.Address, 0) + "/afu_id")
	d.do(d.node.Set(cardB.Address, 0, "errors/errors", "0x4000000000000"))
	d.await("A hangs, B breaks", health{"3b:00.0": true, "3b:00.0-p1": true, "5e:00.0": false})
	d.await("A timed out", health{"3b:00.0": false, "3b:00.0-p1": false, "5e:00.0": false})
	release()
	d.await("A came back", health{"3b:00.0": true, "3b:00.0-p1": true, "5e:00.0": false})
	release = d.makeFIFO(d.node.PortDir(cardA.Address, 0) + "/afu_id")
	defer release()
	d.await("A hangs again", health{"3b:00.0": false, "3b:00.0-p1": false, "5e:00.0": false})
	d.do(d.stop())
}

// After its end the daemon leaves no goroutine, descriptor or socket.
func TestNothingIsLeft(t *testing.T) {
	settle := func() (goroutines, fds int) {
		runtime.GC()
		entries := must.Value(os.ReadDir("/proc/self/fd"))(t)
		return runtime.NumGoroutine(), len(entries)
	}
	warm := startDaemon(t, nil) // so that goroutines and descriptors that the runtime and the libraries keep are not counted
	warm.plug(cardB)
	warm.await("plugged", health{"5e:00.0": true})
	warm.do(warm.stop())
	warm.kubelet.Stop()
	warm.pods.Stop()

	goroutines, fds := settle()
	for range 5 {
		d := startDaemon(t, nil)
		d.plug(cardA)
		d.await("plugged", health{"3b:00.0": true, "3b:00.0-p1": true})
		d.do(d.stop())
		d.kubelet.Stop()
		d.pods.Stop()
		d.do(os.Remove(filepath.Join(d.cfg.KubeletDir, simkubelet.Checkpoint)))
		left, err := filepath.Glob(d.cfg.KubeletDir + "/*")
		if err != nil || len(left) != 0 {
			t.Errorf("left in the kubelet's directory: %v %v", left, err)
		}
	}
	patient.Await(t, "the daemons have ended", func() error {
		if g, f := settle(); g > goroutines || f > fds {
			stacks := make([]byte, 1<<20)
			return fmt.Errorf("%d goroutines and %d descriptors, were %d and %d:\n%s", g, f, goroutines, fds, stacks[:runtime.Stack(stacks, true)])
		}
		return nil
	})
}

func TestMissingSysfsRootEndsAtOnce(t *testing.T) {
	node, err := simnode.New(cmdtest.ShortDir(t))
	must.Succeed(t, err)
	cfg := config.Defaults()
	cfg.SysfsRoot, cfg.DevRoot, cfg.HostDevRoot, cfg.HTTPAddress, cfg.Socket = "/nonexistent", node.Dev, node.Dev, "", ""
	cfg.StateDir = filepath.Join(cmdtest.ShortDir(t), "state")
	err = deviceplugin.New("test", cfg, zap.NewNop(), metrics.New("test"), nil).Serve(t.Context())
	compare.Error(t, "serve", "/nonexistent", err)
}
