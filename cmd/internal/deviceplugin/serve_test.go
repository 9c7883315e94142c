package deviceplugin_test

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/zap"

	"b-com.com/accelerator-device-plugin/cmd/internal/cmdtest"
	"b-com.com/accelerator-device-plugin/cmd/internal/deviceplugin"
	"b-com.com/accelerator-device-plugin/daemon/config"
	"b-com.com/accelerator-device-plugin/internal/metrics"
	"b-com.com/accelerator-device-plugin/sim/simkubelet"
	"b-com.com/accelerator-device-plugin/sim/simnode"
)

func TestHotPlug(t *testing.T) {
	d := startDaemon(t, nil)
	d.do(d.node.Plug(cardA))
	d.await("first card in", health{"3b:00.0": true, "3b:00.0-p1": true})
	d.do(d.node.Plug(cardB))
	list := d.await("second card in", health{"3b:00.0": true, "3b:00.0-p1": true, "5e:00.0": true})
	if b, _ := list.Device("5e:00.0"); b.NUMANode != 1 {
		t.Errorf("NUMA node of 5e:00.0 = %d, want 1", b.NUMANode)
	}
	d.do(d.node.Unplug(cardA.Address))
	d.await("first card out", health{"5e:00.0": true})
	d.do(d.node.Plug(cardA))
	d.await("first card back", health{"3b:00.0": true, "3b:00.0-p1": true, "5e:00.0": true})
}

func TestHealthOfEachKind(t *testing.T) {
	d := startDaemon(t, nil)
	d.do(d.node.Plug(cardA))
	d.await("plugged", health{"3b:00.0": true, "3b:00.0-p1": true})
	port := d.node.PortDir(cardA.Address, 1)
	node := filepath.Join(d.node.Dev, d.node.PortNode(cardA.Address, 1))
	for _, test := range []struct {
		name        string
		hurt, mend  func() error
		offeredThen bool
	}{
		{"AP6", func() error { return d.node.Set(cardA.Address, 1, "errors/errors", "0x4000000000000") },
			func() error { return d.node.Set(cardA.Address, 1, "errors/errors", "0x0") }, false},
		{"an error of the tenant's", func() error { return d.node.Set(cardA.Address, 1, "errors/errors", "0x1") },
			func() error { return d.node.Set(cardA.Address, 1, "errors/errors", "0x0") }, true},
		{"throttled", func() error { return d.node.Set(cardA.Address, 1, "power_state", "0x6") },
			func() error { return d.node.Set(cardA.Address, 1, "power_state", "0x0") }, false},
		{"AFU all f", func() error { return d.node.Set(cardA.Address, 1, "afu_id", strings.Repeat("f", 32)) },
			func() error { return d.node.Set(cardA.Address, 1, "afu_id", cardA.AFUID) }, false},
		{"AFU garbage", func() error { return d.node.Set(cardA.Address, 1, "afu_id", "no id") },
			func() error { return d.node.Set(cardA.Address, 1, "afu_id", cardA.AFUID) }, false},
		{"errors garbage", func() error { return d.node.Set(cardA.Address, 1, "errors/errors", strings.Repeat("9", 5000)) },
			func() error { return d.node.Set(cardA.Address, 1, "errors/errors", "0x0") }, false},
		{"health file gone", func() error { return os.Remove(port + "/power_state") },
			func() error { return d.node.Set(cardA.Address, 1, "power_state", "0x0") }, false},
		{"unbound", func() error { return d.node.Unbind(cardA.Address, 1) },
			func() error { return d.node.Bind(cardA.Address, 1) }, false},
		{"no node", func() error { return os.Remove(node) },
			func() error { return os.WriteFile(node, nil, 0o600) }, false},
		{"node is a directory", func() error { return errors.Join(os.Remove(node), os.Mkdir(node, 0o700)) },
			func() error { return errors.Join(os.Remove(node), os.WriteFile(node, nil, 0o600)) }, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			d := *d
			d.t = t
			d.do(test.hurt())
			d.await("hurt", health{"3b:00.0": true, "3b:00.0-p1": test.offeredThen})
			d.do(test.mend())
			d.await("mended", health{"3b:00.0": true, "3b:00.0-p1": true})
		})
	}
}

// A read that hangs makes its own card unhealthy and delays no other.
func TestReadThatHangs(t *testing.T) {
	d := startDaemon(t, func(c *config.Config) { c.HealthInterval = 100 * time.Millisecond })
	d.do(d.node.Plug(cardA))
	d.do(d.node.Plug(cardB))
	d.await("plugged", health{"3b:00.0": true, "3b:00.0-p1": true, "5e:00.0": true})
	release := d.makeFIFO(d.node.PortDir(cardA.Address, 0) + "/afu_id")
	d.do(d.node.Set(cardB.Address, 0, "errors/errors", "0x4000000000000"))
	d.await("A hangs, B breaks", health{"3b:00.0": true, "3b:00.0-p1": true, "5e:00.0": false})
	d.await("A timed out", health{"3b:00.0": false, "3b:00.0-p1": false, "5e:00.0": false})
	release()
	d.await("A came back", health{"3b:00.0": true, "3b:00.0-p1": true, "5e:00.0": false})
}

func TestStopWithAReadThatHangs(t *testing.T) {
	d := startDaemon(t, nil)
	d.do(d.node.Plug(cardB))
	d.await("plugged", health{"5e:00.0": true})
	release := d.makeFIFO(d.node.PortDir(cardB.Address, 0) + "/afu_id")
	defer release()
	d.await("hangs", health{"5e:00.0": false})
	begin := time.Now()
	if err := d.stop(); err != nil {
		t.Error(err)
	}
	if took := time.Since(begin); took > 2*time.Second {
		t.Errorf("stop took %s, want at most 2 s", took)
	}
}

func TestKubeletRestart(t *testing.T) {
	d := startDaemon(t, nil)
	d.do(d.node.Plug(cardB))
	d.await("plugged", health{"5e:00.0": true})
	for i := range 5 {
		d.restartKubelet()
		d.await("after the restart", health{"5e:00.0": true})
		if n := d.kubelet.Registrations(testResource); n != 1 {
			t.Fatalf("restart %d: %d registrations, want 1", i, n)
		}
	}
}

// The kubelet may start, and create its directory, hours after the daemon.
func TestKubeletComesLater(t *testing.T) {
	d := startDaemon(t, nil)
	d.kubelet.Stop()
	d.do(os.RemoveAll(d.cfg.KubeletDir))
	d.do(d.node.Plug(cardB))
	d.startKubelet()
	d.await("kubelet came", health{"5e:00.0": true})
}

func TestHangup(t *testing.T) {
	d := startDaemon(t, nil)
	d.do(d.node.Plug(cardB))
	d.await("plugged", health{"5e:00.0": true})
	d.hangups <- syscall.SIGHUP
	if err := d.kubelet.AwaitRegistrations(t.Context(), testResource, 2); err != nil {
		t.Error(err)
	}
	d.await("registered again", health{"5e:00.0": true})
}

func TestAllocate(t *testing.T) {
	d := startDaemon(t, nil)
	d.do(d.node.Plug(cardA))
	d.await("plugged", health{"3b:00.0": true, "3b:00.0-p1": true})
	answer, err := d.kubelet.Allocate(t.Context(), testResource, "3b:00.0-p1", "3b:00.0")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"ACCELERATOR_UNITS", "ACCELERATOR_DEVICES"} {
		if got, want := answer.Envs[name], "3b:00.0-p1,3b:00.0"; got != want {
			t.Errorf("%s = %q, want %q", name, got, want)
		}
	}
	if len(answer.Devices) != 2 || answer.Devices[0].HostPath != "/dev/dfl-port.1" || answer.Devices[0].Permissions != "rw" {
		t.Errorf("device nodes = %v, want /dev/dfl-port.1 and .0, rw", answer.Devices)
	}
	d.do(d.node.Unplug(cardA.Address))
	d.await("pulled, given out a moment ago", health{"3b:00.0": false, "3b:00.0-p1": false})
	// The card is removed in steps, and unhealthy for other reasons meanwhile.
	d.awaitRefused("pulled", testResource, "3b:00.0", "removed")
}

func TestPool(t *testing.T) {
	d := startDaemon(t, func(c *config.Config) { c.Mode, c.AccelNbUnits = "pool", 3 })
	d.await("started", health{"0": true, "1": true, "2": true})
	answer, err := d.kubelet.Allocate(t.Context(), testResource, "2", "0")
	if err != nil || answer.Envs["ACCELERATOR_UNITS"] != "2,0" || len(answer.Devices) != 0 {
		t.Errorf("Allocate = %v, %v; want units 2,0 and no node", answer, err)
	}
}

// After its end the daemon leaves no goroutine, descriptor or socket.
func TestNothingIsLeft(t *testing.T) {
	settle := func() (goroutines, fds int) {
		runtime.GC()
		entries, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatal(err)
		}
		return runtime.NumGoroutine(), len(entries)
	}
	warm := startDaemon(t, nil) // so that goroutines and descriptors that the runtime and the libraries keep are not counted
	warm.do(warm.node.Plug(cardB))
	warm.await("plugged", health{"5e:00.0": true})
	warm.do(warm.stop())
	warm.kubelet.Stop()
	warm.pods.Stop()

	goroutines, fds := settle()
	for range 5 {
		d := startDaemon(t, nil)
		d.do(d.node.Plug(cardA))
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
	deadline := time.After(5 * time.Second)
	for {
		g, f := settle()
		if g <= goroutines && f <= fds {
			return
		}
		select {
		case <-deadline:
			stacks := make([]byte, 1<<20)
			t.Fatalf("%d goroutines and %d descriptors, were %d and %d:\n%s", g, f, goroutines, fds, stacks[:runtime.Stack(stacks, true)])
		case <-time.After(10 * time.Millisecond):
		}
	}
}

func TestMissingSysfsRootEndsAtOnce(t *testing.T) {
	node, err := simnode.New(cmdtest.ShortDir(t))
	if err != nil {
		t.Fatal(err)
	}
	cfg := config.Defaults()
	cfg.SysfsRoot, cfg.DevRoot, cfg.HostDevRoot, cfg.HTTPAddress, cfg.Socket = "/nonexistent", node.Dev, node.Dev, "", ""
	cfg.StateDir = filepath.Join(cmdtest.ShortDir(t), "state")
	err = deviceplugin.New("test", cfg, zap.NewNop(), metrics.New("test"), nil).Serve(t.Context())
	if err == nil || !strings.Contains(err.Error(), "/nonexistent") {
		t.Errorf("serve = %v, want an error that names /nonexistent", err)
	}
}

// The daemon survives a kubelet that misbehaves, and serves it when it works again.
func TestKubeletThatMisbehaves(t *testing.T) {
	for _, test := range []struct {
		name      string
		behaviour simkubelet.Behaviour
	}{
		{"refuses", simkubelet.Behaviour{Refuse: "not now"}},
		{"hangs", simkubelet.Behaviour{HangRegister: true}},
		{"vanishes in the middle", simkubelet.Behaviour{Vanish: true}},
		{"never reads", simkubelet.Behaviour{NoRead: true}},
	} {
		t.Run(test.name, func(t *testing.T) {
			d := startDaemon(t, nil)
			d.kubelet.Behave(test.behaviour)
			d.do(d.node.Plug(cardB))
			if err := d.kubelet.AwaitRegistrations(t.Context(), testResource, 1); err != nil && !test.behaviour.Vanish {
				t.Fatal(err)
			}
			d.restartKubelet()
			d.await("a sane kubelet came", health{"5e:00.0": true})
		})
	}
}

// A kubelet whose answers are not valid gRPC.
func TestKubeletInvalidMessages(t *testing.T) {
	d := startDaemon(t, nil)
	d.kubelet.Stop()
	listener, err := net.Listen("unix", filepath.Join(d.cfg.KubeletDir, simkubelet.Socket))
	d.do(err)
	heard := make(chan struct{})
	go func() {
		defer close(heard)
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		conn.Write([]byte(strings.Repeat("rubbish", 1000)))
		conn.Close()
	}()
	d.do(d.node.Plug(cardB))
	<-heard
	listener.Close()
	d.startKubelet()
	d.await("a sane kubelet came", health{"5e:00.0": true})
}
