package deviceplugin_test

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"b-com.com/accelerator-device-plugin/cmd/internal/deviceplugin"
	"b-com.com/accelerator-device-plugin/daemon"
	"b-com.com/accelerator-device-plugin/daemon/config"
	"b-com.com/accelerator-device-plugin/internal/metrics"
	"b-com.com/accelerator-device-plugin/inventory"
	"b-com.com/accelerator-device-plugin/server"
	"b-com.com/accelerator-device-plugin/sim/simkubelet"
	"b-com.com/accelerator-device-plugin/sim/simnode"
	"b-com.com/accelerator-device-plugin/test/cmdtest"
	"b-com.com/accelerator-device-plugin/test/eventtest"
	"b-com.com/accelerator-device-plugin/test/golden"
	"b-com.com/accelerator-device-plugin/test/must"
	"b-com.com/accelerator-device-plugin/test/patient"
)

// story records the program's log while its node changes, step by step.
type story struct {
	t       *testing.T
	node    *simnode.Node
	dir     string
	kubelet *simkubelet.Kubelet
	pods    *simkubelet.PodResources
	process *os.Process
	ended   func() error // waits until it has exited
	log     log
	since   int // length of the log when this step started
}

// log collects the lines that have been written so far.
type log struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// TestStory plugs in, allocates, breaks, heals, pulls and frees devices, and restarts the kubelet. Each step must cause
// certain log lines, whose fields are those in the catalogue. With -update, it writes the log for other tests.
func TestStory(t *testing.T) {
	t.Parallel()
	s := &story{t: t, dir: cmdtest.ShortDir(t)}
	s.start()
	s.play("a card with two ports is plugged in", func() error { return s.node.Plug(cardA) })
	s.awaitList(health{"3b:00.0": true, "3b:00.0-p1": true})
	s.awaitLog(`"device":"3b:00.0-p1"`, "resource.registered", "list.sent")
	s.play("a second card is plugged in", func() error { return s.node.Plug(cardB) })
	s.awaitList(health{"3b:00.0": true, "3b:00.0-p1": true, "5e:00.0": true})
	s.awaitLog("device.added", "list.sent")

	s.begin("a pod is given the second card")
	s.allocate("5e:00.0")
	s.pods.Hold("default", "training", "main", testResource, "5e:00.0")
	s.awaitLog("allocate.served", "device.held")

	s.play("port 1 of the first card breaks", func() error { return s.node.Set(cardA.Address, 1, "errors/errors", "0x4000000000000") })
	s.awaitList(health{"3b:00.0": true, "3b:00.0-p1": false, "5e:00.0": true})
	s.awaitLog("device.health", "list.sent")
	s.begin("a pod asks for the broken port all the same")
	s.allocate("3b:00.0-p1")
	s.awaitLog("allocate.refused")
	s.play("the port heals, and must hold", func() error { return s.node.Set(cardA.Address, 1, "errors/errors", "0x0") })
	s.awaitList(health{"3b:00.0": true, "3b:00.0-p1": true, "5e:00.0": true})
	s.awaitLog(`"new":"healthy"`, "list.sent")

	s.play("the second card is pulled out under the pod", func() error { return s.node.Unplug(cardB.Address) })
	s.awaitList(health{"3b:00.0": true, "3b:00.0-p1": true, "5e:00.0": false})
	s.awaitLog("device.removed", "device.tombstone", "list.sent")
	s.play("it is put back, and must hold", func() error { return s.node.Plug(cardB) })
	s.awaitList(health{"3b:00.0": true, "3b:00.0-p1": true, "5e:00.0": true})
	s.awaitLog("device.returned", `"new":"healthy"`, "list.sent")
	s.play("it is pulled out again", func() error { return s.node.Unplug(cardB.Address) })
	s.awaitList(health{"3b:00.0": true, "3b:00.0-p1": true, "5e:00.0": false})
	s.awaitLog("device.removed", "device.tombstone", "list.sent")
	s.begin("the pod ends")
	s.pods.Release("default", "training")
	s.awaitList(health{"3b:00.0": true, "3b:00.0-p1": true})
	s.awaitLog("device.freed", "device.released", "list.sent")

	s.begin("the kubelet restarts")
	s.kubelet.Stop()
	s.awaitLog("kubelet.absent")
	s.startKubelet()
	s.awaitList(health{"3b:00.0": true, "3b:00.0-p1": true})
	s.awaitLog("list.sent", "resource.registered")
	s.play("the first card, without a holder, is pulled", func() error { return s.node.Unplug(cardA.Address) })
	s.awaitList(health{})
	s.awaitLog(`"device":"3b:00.0-p1"`, `"count":0`)
	s.begin("the daemon is stopped")
	s.do(s.process.Signal(syscall.SIGTERM))
	s.awaitLog("daemon.stopped")
	s.do(s.ended())
	text := s.log.String()
	for line := range strings.Lines(text) {
		s.do(eventtest.Line([]byte(line)))
	}
	if *golden.Update { // with the paths of a real node
		text = strings.NewReplacer(s.dir+"/kubelet", "/var/lib/kubelet/device-plugins", s.dir+"/", "/").Replace(text)
		s.do(os.WriteFile("../../../internal/timeline/testdata/hotplug.log", []byte(text), 0o644))
	}
}

// storyIn is the environment variable that turns the test binary into a story's daemon.
const storyIn = "ACCELERATOR_TEST_STORY"

// liveStory is a daemon in a separate process, which can be stopped and continued. Intervals that can't be set are
// short.
func liveStory(dir string) (exitCode int) {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	cfg := config.Defaults()
	cfg.SysfsRoot, cfg.DevRoot, cfg.HostDevRoot = dir+"/sys", dir+"/dev", "/dev"
	cfg.KubeletDir, cfg.PodResourcesSocket, cfg.HTTPAddress = dir+"/kubelet", dir+"/pods.sock", ""
	cfg.Socket, cfg.StateDir = "", dir+"/state"
	cfg.RecoveryHold = 200 * time.Millisecond
	counts := metrics.New("test")
	log := daemon.OpenLog(cfg, os.Stderr, counts)
	defer log.Close()
	s := deviceplugin.New("test", cfg, log.Logger, counts, func(i *inventory.Config, _ *server.Config) {
		i.HoldersInterval = 50 * time.Millisecond
	})
	if s.Live(ctx, log) != nil {
		return 1
	}
	return 0
}

// start starts the program on a node without cards.
func (s *story) start() {
	s.node = must.Value(simnode.New(s.dir))(s.t)
	s.startKubelet()
	s.t.Cleanup(func() { s.kubelet.Stop() })
	s.pods = must.Value(simkubelet.StartPodResources(context.WithoutCancel(s.t.Context()), filepath.Join(s.dir, "pods.sock")))(s.t)
	s.t.Cleanup(s.pods.Stop)
	s.pods.Join(s.kubelet)
	s.begin("the daemon starts on a node without cards")
	cmd := exec.CommandContext(s.t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), storyIn+"="+s.dir)
	cmd.Stderr = &s.log
	s.do(cmd.Start())
	s.process = cmd.Process
	s.t.Cleanup(func() { _ = cmd.Process.Kill() })
	s.awaitLog("scan.done")
	s.ended = cmd.Wait
}

// allocate calls Allocate as the kubelet does for a pod. The result is visible in the log.
func (s *story) allocate(id string) {
	_, _ = s.kubelet.Allocate(s.t.Context(), testResource, id)
}

func (s *story) do(err error) {
	s.t.Helper()
	must.Succeed(s.t, err)
}

func (s *story) startKubelet() {
	s.t.Helper()
	s.kubelet = must.Value(simkubelet.Start(context.WithoutCancel(s.t.Context()), filepath.Join(s.dir, "kubelet"), simkubelet.Behaviour{}))(s.t)
	if s.pods != nil {
		s.pods.Join(s.kubelet)
	}
}

// begin starts a step. The description is for the reader, and for the output if the test fails.
func (s *story) begin(what string) {
	s.t.Log(what)
	s.since = len(s.log.String())
}

// play changes the node while the program is stopped. The kernel makes a change within microseconds, but the simulation
// takes so long that the daemon would see it half done.
func (s *story) play(what string, change func() error) {
	s.t.Helper()
	s.begin(what)
	s.do(s.process.Signal(syscall.SIGSTOP))
	s.await("the program stands still", func() bool {
		stat := must.Value(os.ReadFile(fmt.Sprintf("/proc/%d/stat", s.process.Pid)))(s.t)
		_, state, _ := strings.Cut(string(stat), ") ")
		return strings.HasPrefix(state, "T")
	})
	s.do(change())
	s.do(s.process.Signal(syscall.SIGCONT))
}

func (s *story) await(what string, met func() bool) {
	s.t.Helper()
	patient.Await(s.t, what, func() error {
		if !met() {
			return fmt.Errorf("not seen; log:\n%s", s.log.String())
		}
		return nil
	})
}

// awaitLog waits until this step's log contains all of these words. Concurrent lines can come in any order, so each of
// them has to be waited for.
func (s *story) awaitLog(words ...string) {
	s.t.Helper()
	for _, word := range words {
		s.await(word, func() bool { return strings.Contains(s.log.String()[s.since:], word) })
	}
}

func (s *story) awaitList(want health) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), patient.Limit)
	defer cancel()
	if got, err := s.kubelet.AwaitList(ctx, testResource, func(l simkubelet.List) bool { return maps.Equal(told(l), want) }); err != nil {
		s.t.Fatalf("list of the kubelet: found %v, want %v: %v\n%s", told(got), want, err, s.log.String())
	}
}
