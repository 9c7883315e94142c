package watcher_test

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"go.uber.org/zap"

	"b-com.com/accelerator-device-plugin/sim/simnode"
	"b-com.com/accelerator-device-plugin/test/compare"
	"b-com.com/accelerator-device-plugin/test/must"
	"b-com.com/accelerator-device-plugin/watcher"
)

const (
	bridgeDir = "devices/pci0000:00/0000:00:02.0"
	cardDir   = bridgeDir + "/0000:02:00.0"
	portDir   = cardDir + "/fpga_region/region0/dfl-port.0"
)

func card(address string) watcher.Hint {
	return watcher.Hint{Card: address, Source: watcher.SourceInotify}
}

var everything = watcher.Hint{Source: watcher.SourceInotify}

func queueLimit(t *testing.T) int {
	t.Helper()
	text, err := os.ReadFile("/proc/sys/fs/inotify/max_queued_events")
	if err != nil {
		t.Skipf("the limit of the queue is not known: %v", err)
	}
	n, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil || n > 1<<16 {
		t.Skipf("the queue cannot be filled in reasonable time: %s", text)
	}
	return n
}

// barrier separates one step's hints from the next one's. It relies on a tree's events arriving in order, and adds a
// card at the end of each step.
type barrier struct {
	sys   string
	steps int
}

const beyond = "ffff0000:" // the PCI domain of the cards that serve as barriers

// between calls do and returns the cards in the hints that follow. "" stands for everything.
func (b *barrier) between(t *testing.T, h *recorder, do func() error) []string {
	t.Helper()
	must.Succeed(t, do())
	b.steps++
	end := fmt.Sprintf("%s%02x:00.0", beyond, b.steps)
	dir := mkdir(t, b.sys, "devices", end)
	mode := os.FileMode(0o755)
	found := map[string]bool{}
	h.await(t, "end of step", func() bool {
		h.mu.Lock()
		defer h.mu.Unlock()
		for i, hint := range h.hints {
			if hint.Card == end {
				h.hints = h.hints[i+1:]
				return true
			}
			if !strings.HasPrefix(hint.Card, beyond) {
				found[hint.Card] = true
			}
			if hint.Card == "" {
				// The tree may have been reopened before it read the barrier's event.
				mode ^= 0o020
				must.Succeed(t, os.Chmod(dir, mode))
			}
		}
		h.hints = nil
		return false
	})
	return slices.Sorted(maps.Keys(found))
}

func TestTree(t *testing.T) {
	cfg := simulated(t)
	sys := cfg.Host.Sys
	mkdir(t, sys, portDir)
	mkdir(t, sys, "class/fpga_region")
	mkdir(t, sys, "bus/pci/devices")
	file := write(t, "0x0\n", sys, portDir, "power_state")
	region := filepath.Join(sys, "class/fpga_region/region1")
	steps := []struct {
		name string
		do   func() error
		want []string
	}{
		{"nothing", func() error { return nil }, nil},
		{"read", func() error { _, err := os.ReadFile(file); return err }, nil},
		{"write", func() error { return os.WriteFile(file, []byte("0x6\n"), 0o644) }, []string{"0000:02:00.0"}},
		{"chmod", func() error { return os.Chmod(file, 0o400) }, []string{"0000:02:00.0"}},
		{"rename over", func() error { return os.Rename(write(t, "", file+".new"), file) }, []string{"0000:02:00.0"}},
		{"remove", func() error { return os.Remove(file) }, []string{"0000:02:00.0"}},
		{"driver link", func() error { return os.Symlink("/0000:09:00.0", filepath.Join(sys, portDir, "driver")) }, []string{"0000:02:00.0"}},
		{"class link", func() error { return os.Symlink("../../"+bridgeDir+"/0000:03:00.0/fpga_region/region1", region) }, []string{"0000:03:00.0"}},
		{
			"class link made anew",
			func() error { return os.Symlink("../../"+cardDir+"/fpga_region/region1", region+".new") },
			[]string{"0000:02:00.0"},
		},
		{"class link leads elsewhere", func() error { return os.Rename(region+".new", region) }, []string{"0000:02:00.0", "0000:03:00.0"}},
		{"class link removed", func() error { return os.Remove(region) }, []string{"0000:02:00.0"}},
		{
			"bus link named by its address",
			func() error { return os.Symlink("../nowhere", filepath.Join(sys, "bus/pci/devices/0000:04:00.0")) },
			[]string{"0000:04:00.0"},
		},
		{"class link to nowhere", func() error { return os.Symlink("/nowhere", filepath.Join(sys, "class/fpga_region/region9")) }, []string{""}},
		{"class", func() error { return os.Mkdir(filepath.Join(sys, "class/fpga"), 0o755) }, []string{""}},
		{"class removed", func() error { return os.Remove(filepath.Join(sys, "class/fpga")) }, []string{""}},
		{"card", func() error { return os.MkdirAll(filepath.Join(sys, bridgeDir, "0000:05:00.0/fpga_region"), 0o755) }, []string{"0000:05:00.0"}},
		{"card removed", func() error { return os.RemoveAll(filepath.Join(sys, cardDir)) }, []string{"0000:02:00.0"}},
		{"card again", func() error { return os.MkdirAll(filepath.Join(sys, portDir), 0o755) }, []string{"0000:02:00.0"}},
		{"file of the card", func() error { return os.WriteFile(file, nil, 0o644) }, []string{"0000:02:00.0"}},
		{"bridge moved", func() error { return os.Rename(filepath.Join(sys, bridgeDir), filepath.Join(cfg.Host.Dev, "x")) }, []string{"", "0000:00:02.0"}},
	}
	b := &barrier{sys: sys}
	h := newRecorder(t, cfg)
	h.expectLine(t, zap.InfoLevel, "source.opened", map[string]any{"path": sys, "count": int64(13)})
	h.run(t)
	for _, step := range steps {
		t.Run(step.name, func(t *testing.T) {
			compare.Values(t, "hints", step.want, b.between(t, h, step.do))
		})
	}
}

// A change between New and Run isn't missed. Changes to functions on vfio-pci cause hints for the functions, or for
// everything, because a group and its sysfs node don't say which function they belong to. This configuration doesn't
// watch the device nodes in /dev/vfio.
func TestTreeOfFunctions(t *testing.T) {
	cfg := simulated(t)
	node := must.Value(simnode.New(filepath.Dir(cfg.Host.Sys)))(t)
	if node.Sys != cfg.Host.Sys || node.Dev != cfg.Host.Dev {
		t.Fatalf("found the tree %s and %s, want %+v", node.Sys, node.Dev, cfg.Host)
	}
	const pf, vf = "0000:02:00.0", "0000:02:00.1"
	b := &barrier{sys: node.Sys}
	mkdir(t, node.Sys, "devices")
	h := newRecorder(t, cfg)
	h.run(t)
	for _, step := range []struct {
		name string
		do   func() error
		want []string
	}{
		{"physical function", func() error {
			return node.Plug(simnode.Card{Address: pf, Group: simnode.OwnGroup, Driver: "pci-pf-stub"})
		}, []string{"", pf}},
		{"virtual function", func() error {
			return node.Plug(simnode.Card{Address: vf, Group: simnode.OwnGroup, PhysFn: pf})
		}, []string{"", pf, vf}},
		{"bound", func() error { return node.SetDriver(vf, "vfio-pci") }, []string{"", vf}},
		{"node removed by hand", func() error { return os.Remove(filepath.Join(node.Dev, "vfio/1")) }, nil},
		{"used", func() error { return node.Use(vf) }, nil},
		{"unbound while used", func() error { return node.SetDriver(vf, "") }, []string{vf}},
		{"no longer used", func() error { return node.EndUse(vf) }, []string{"", vf}},
		{"virtual function gone", func() error { return node.Unplug(vf) }, []string{"", pf, vf}},
	} {
		compare.Values(t, step.name+": hints", step.want, b.between(t, h, step.do))
	}
}

func TestTreeListensBeforeRun(t *testing.T) {
	cfg := simulated(t)
	h := newRecorder(t, cfg)
	mkdir(t, cfg.Host.Sys, cardDir)
	h.run(t)
	h.expect(t, everything) // the path of the topmost new directory doesn't include a card
}

// Removing a link that existed before New causes a hint for the card it pointed to.
func TestTreeLinksFromBeforeStart(t *testing.T) {
	cfg := simulated(t)
	mkdir(t, cfg.Host.Sys, "class/fpga_region")
	link := filepath.Join(cfg.Host.Sys, "class/fpga_region/region0")
	must.Succeed(t, os.Symlink("../../"+cardDir+"/fpga_region/region0", link))
	h := newRecorder(t, cfg)
	h.run(t)
	must.Succeed(t, os.Remove(link))
	h.expect(t, card("0000:02:00.0"))
}

// If a directory that isn't empty is moved into the tree, all directories in it are watched, and there is a hint for
// every card in it.
func TestTreeMovedIn(t *testing.T) {
	cfg := simulated(t)
	outside := filepath.Join(t.TempDir(), "full")
	for i := range 3 {
		write(t, "", mkdir(t, outside, fmt.Sprintf("0000:0%d:00.0/fpga_region/region%d/dfl-port.%d", i+3, i, i)), "afu_id")
	}
	mkdir(t, cfg.Host.Sys, "devices/pci0000:00")
	h := newRecorder(t, cfg)
	h.run(t)
	bridge := filepath.Join(cfg.Host.Sys, bridgeDir)
	must.Succeed(t, os.Rename(outside, bridge))
	for _, address := range []string{"0000:03:00.0", "0000:04:00.0", "0000:05:00.0"} {
		h.await(t, address, func() bool {
			return h.any(func(hint watcher.Hint) bool { return hint.Card == address })
		})
	}
	h.expect(t, card("0000:00:02.0"))
	write(t, "x", bridge, "0000:05:00.0/fpga_region/region2/dfl-port.2/afu_id")
	h.expect(t, card("0000:05:00.0"))
}

// A directory that is moved becomes a different card, and is watched under its new name.
func TestTreeMoved(t *testing.T) {
	cfg := simulated(t)
	from, to := filepath.Join(cfg.Host.Sys, cardDir), filepath.Join(cfg.Host.Sys, bridgeDir, "0000:05:00.0")
	mkdir(t, cfg.Host.Sys, portDir)
	h := newRecorder(t, cfg)
	h.run(t)
	for range 20 {
		must.Succeed(t, os.Rename(from, to))
		h.expect(t, card(filepath.Base(from))) // immediately,
		h.expect(t, everything)                // and once the new name is watched
		write(t, "x", to, "fpga_region/region0/dfl-port.0/afu_id")
		h.expect(t, card(filepath.Base(to)))
		from, to = to, from
	}
	// It is moved out of the tree and deleted right away.
	must.Succeed(t, os.Rename(from, cfg.Host.Dev+"/gone"))
	must.Succeed(t, os.RemoveAll(cfg.Host.Dev+"/gone"))
	h.expect(t, card(filepath.Base(from)))
	h.expect(t, everything)
	mkdir(t, from)
	h.expect(t, card(filepath.Base(from)))
	compare.Empty(t, "warnings", h.logs.FilterField(zap.String("path", cfg.Host.Sys)).FilterLevelExact(zap.WarnLevel).All())
}

func TestTreeRootReturns(t *testing.T) {
	t.Parallel()
	cfg := simulated(t)
	mkdir(t, cfg.Host.Sys, portDir)
	h := newRecorder(t, cfg)
	h.run(t)
	must.Succeed(t, os.RemoveAll(cfg.Host.Sys))
	h.expectLine(t, zap.WarnLevel, "source.lost", map[string]any{"path": cfg.Host.Sys, "remaining": "resync"})
	mkdir(t, cfg.Host.Sys)
	h.expect(t, watcher.Hint{Source: watcher.SourceReopen})
	dir := mkdir(t, cfg.Host.Sys, "0000:02:00.0")
	h.expect(t, card("0000:02:00.0")) // immediately,
	h.expect(t, card("0000:02:00.0")) // and again once it is watched
	write(t, "-1", dir, "numa_node")
	h.expect(t, card("0000:02:00.0"))
}

// A directory that can't be read is watched once its permissions allow it.
func TestTreeWithoutPermission(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("root may read every directory")
	}
	cfg := simulated(t)
	port := mkdir(t, cfg.Host.Sys, portDir)
	must.Succeed(t, os.Chmod(port, 0))
	h := newRecorder(t, cfg)
	h.run(t)
	must.Succeed(t, os.Chmod(port, 0o755))
	h.expect(t, card("0000:02:00.0"))
	h.expect(t, card("0000:02:00.0")) // again once the directory is watched
	write(t, "x", port, "afu_id")
	h.expect(t, card("0000:02:00.0"))
}
