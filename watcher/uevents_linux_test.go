package watcher_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/zap"
	"golang.org/x/sys/unix"

	"b-com.com/accelerator-device-plugin/test/compare"
	"b-com.com/accelerator-device-plugin/test/must"
	"b-com.com/accelerator-device-plugin/watcher"
)

// memNull is the uevent file of a device that exists on every kernel. Writing to it makes the kernel send a uevent.
const memNull = "/sys/class/mem/null/uevent"

// listening returns a watcher with an open socket that also handles mem and block events. Other devices' events can
// arrive at any time.
func listening(t *testing.T) *recorder {
	t.Helper()
	cfg := simulated(t)
	cfg.Host.Dev = "/dev"
	cfg.Nodes = append(cfg.Nodes, "zram")
	cfg.Subsystems = []string{"mem", "block"}
	h := newRecorder(t, cfg)
	if lost := h.lines(zap.WarnLevel, "source.lost"); len(lost) > 0 {
		t.Skipf("a source is refused here: %v", lost[0].ContextMap()["error"])
	}
	return h
}

func provoke(t *testing.T, file, text string) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root can make the kernel send uevents")
	}
	err := os.WriteFile(file, []byte(text), 0)
	if errors.Is(err, fs.ErrPermission) || errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.EROFS) {
		t.Skipf("no uevents can be made here: %v", err)
	}
	must.Succeed(t, err)
}

const uuid = "8a8e4d4e-5d6c-4b1f-9a51-3c4ad4d3b8c1"

func expectUEvent(t *testing.T, h *recorder, fields map[string]any) map[string]any {
	t.Helper()
	return h.expectLine(t, zap.DebugLevel, "uevent.received", fields)
}

func TestUEventOfKernel(t *testing.T) {
	h := listening(t)
	provoke(t, memNull, "change "+uuid+" A=1") // after New, before Run
	h.run(t)
	h.expect(t, watcher.Hint{Source: watcher.SourceUEvent})
	got := expectUEvent(t, h, map[string]any{
		"action": "change", "devpath": "/devices/virtual/mem/null", "subsystem": "mem", "node": "null",
	})
	if got["seqnum"].(uint64) == 0 {
		t.Errorf("no sequence number: %v", got)
	}
	provoke(t, memNull, "add "+uuid)
	expectUEvent(t, h, map[string]any{"action": "add", "devpath": "/devices/virtual/mem/null"})
}

func TestUEventOfCard(t *testing.T) {
	cards, err := filepath.Glob("/sys/bus/pci/devices/*/uevent")
	if err != nil || len(cards) == 0 {
		t.Skip("no PCI device is here")
	}
	address := filepath.Base(filepath.Dir(cards[len(cards)-1]))
	h := listening(t)
	h.run(t)
	provoke(t, cards[len(cards)-1], "change "+uuid)
	h.expect(t, watcher.Hint{Card: address, Source: watcher.SourceUEvent})
	expectUEvent(t, h, map[string]any{"action": "change", "pci": address, "subsystem": "pci"})
}

// A device is added and removed, along with its device node.
func TestUEventOfHotplug(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root plugs devices")
	}
	h := listening(t)
	h.run(t)
	number, err := os.ReadFile("/sys/class/zram-control/hot_add")
	if err != nil {
		t.Skipf("no device can be plugged here: %v", err)
	}
	name := "zram" + strings.TrimSpace(string(number))
	unplug := func() error {
		return os.WriteFile("/sys/class/zram-control/hot_remove", number, 0)
	}
	t.Cleanup(func() { _ = unplug() })
	expectUEvent(t, h, map[string]any{"action": "add", "devpath": "/devices/virtual/block/" + name, "node": name})
	h.expectLine(t, zap.DebugLevel, "inotify.event", map[string]any{"node": name, "action": "CREATE"})
	must.Succeed(t, unplug())
	expectUEvent(t, h, map[string]any{"action": "remove", "devpath": "/devices/virtual/block/" + name})
	h.expectLine(t, zap.DebugLevel, "inotify.event", map[string]any{"node": name, "action": "REMOVE"})
}

// After an overflow, the queue is drained, there is a hint for everything, and later events are received again.
func TestUEventOverflow(t *testing.T) {
	h := listening(t)
	must.Succeed(t, h.ShrinkReceiveBuffer(16<<10))
	for range 500 { // Run isn't reading yet
		provoke(t, memNull, "change "+uuid)
	}
	h.run(t)
	h.expect(t, watcher.Hint{Source: watcher.SourceOverflow})
	line := h.expectLine(t, zap.WarnLevel, "uevent.overflow", nil)
	if n := line["count"].(int64); n < 1 || n >= 500 {
		t.Errorf("drained %d messages", n)
	}
	provoke(t, memNull, "remove "+uuid)
	h.expect(t, watcher.Hint{Source: watcher.SourceUEvent})
	expectUEvent(t, h, map[string]any{"action": "remove", "devpath": "/devices/virtual/mem/null"})
	compare.Equal(t, "warnings", 1, len(h.lines(zap.WarnLevel, "uevent.overflow")))
}

func TestUEventSocketReopened(t *testing.T) {
	h := listening(t)
	cut := h.UEventCloser()
	h.run(t)
	must.Succeed(t, cut())
	h.expectLine(t, zap.WarnLevel, "source.lost", map[string]any{"source": "uevent", "remaining": "inotify and resync"})
	h.expectLine(t, zap.InfoLevel, "source.recovered", map[string]any{"source": "uevent"})
	h.expect(t, watcher.Hint{Source: watcher.SourceReopen})
	provoke(t, memNull, "change "+uuid)
	expectUEvent(t, h, map[string]any{"devpath": "/devices/virtual/mem/null"})
}

func TestUEventSocketFlags(t *testing.T) {
	h := listening(t)
	fd, fl, err := h.UEventFlags()
	must.Succeed(t, err)
	if fd&unix.FD_CLOEXEC == 0 {
		t.Errorf("the socket is inherited by children")
	}
	if fl&unix.O_NONBLOCK == 0 {
		t.Errorf("the socket blocks")
	}
	opened := h.expectLine(t, zap.InfoLevel, "source.opened", map[string]any{"source": "uevent"})
	if opened["bytes"].(int64) <= 0 {
		t.Errorf("no buffer size: %v", opened)
	}
}
