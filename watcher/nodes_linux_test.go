package watcher_test

import (
	"os"
	"path/filepath"
	"testing"

	"b-com.com/accelerator-device-plugin/test/compare"
	"b-com.com/accelerator-device-plugin/test/must"
	"b-com.com/accelerator-device-plugin/watcher"
	"go.uber.org/zap"
)

func node(name string) watcher.Hint {
	return watcher.Hint{Node: name, Source: watcher.SourceInotify}
}

func TestNodes(t *testing.T) {
	cfg := simulated(t)
	write(t, "", cfg.Host.Dev, "dfl-port.7")
	h := newRecorder(t, cfg)
	write(t, "", cfg.Host.Dev, "dfl-port.0") // after New, before Run
	h.run(t)
	h.expect(t, node("dfl-port.0"))

	must.Succeed(t, os.Chmod(cfg.Host.Dev+"/dfl-port.7", 0o600))
	h.expect(t, node("dfl-port.7"))

	write(t, "", cfg.Host.Dev, "tty0")
	write(t, "x", cfg.Host.Dev, "dfl-port.7") // writing to a device node doesn't cause a hint
	mkdir(t, cfg.Host.Dev, "intel-fpga-port.0")
	h.expect(t, node("intel-fpga-port.0"))
	must.Succeed(t, os.Rename(cfg.Host.Dev+"/dfl-port.0", cfg.Host.Dev+"/dfl-port.1"))
	h.expect(t, node("dfl-port.0"))
	h.expect(t, node("dfl-port.1"))
	must.Succeed(t, os.Remove(cfg.Host.Dev+"/dfl-port.1"))
	h.expect(t, node("dfl-port.1"))

	for _, line := range h.lines(zap.DebugLevel, "inotify.event") {
		fields := line.ContextMap()
		if fields["node"] == "tty0" || fields["node"] == "dfl-port.7" && fields["action"] != "CHMOD" {
			t.Errorf("found a line of an event that is filtered out: %v", fields)
		}
	}
}

// Device nodes can be in subdirectories of the device root, which are created with the first node and removed with the
// last.
func TestNodesBelow(t *testing.T) {
	t.Parallel()
	cfg := simulated(t)
	cfg.Nodes = []string{"vfio/", "vfio/devices/", "dri/renderD"} // at first, only the last one's directory exists
	mkdir(t, cfg.Host.Dev, "dri")
	h := newRecorder(t, cfg)
	write(t, "", cfg.Host.Dev, "dri/renderD128") // after New, before Run
	h.run(t)
	h.expect(t, node("dri/renderD128"))
	for range 2 {
		// The second node's directories may have been created before they were watched.
		write(t, "", mkdir(t, cfg.Host.Dev, "vfio"), "8")
		h.expect(t, node("vfio/8"))
		write(t, "", mkdir(t, cfg.Host.Dev, "vfio/devices"), "vfio0")
		h.expect(t, node("vfio/devices/vfio0"))
		write(t, "", cfg.Host.Dev, "dri/card0")
		write(t, "", cfg.Host.Dev, "vfio/devices/vfio1")
		h.expect(t, node("vfio/devices/vfio1"))
		for _, name := range []string{"vfio/devices/vfio1", "vfio/devices/vfio0", "vfio/devices", "vfio/8"} {
			must.Succeed(t, os.Remove(cfg.Host.Dev+"/"+name))
		}
		h.expect(t, node("vfio/8"))
		must.Succeed(t, os.Remove(cfg.Host.Dev+"/vfio"))
	}
	// The directory is created elsewhere and then moved here along with its nodes.
	write(t, "", mkdir(t, filepath.Dir(cfg.Host.Dev), "new", "devices"), "vfio2")
	must.Succeed(t, os.Rename(filepath.Dir(cfg.Host.Dev)+"/new", cfg.Host.Dev+"/vfio"))
	h.expect(t, node("vfio/devices/vfio2"))
	write(t, "", cfg.Host.Dev, "vfio/devices/vfio3")
	h.expect(t, node("vfio/devices/vfio3"))
	if h.any(func(hint watcher.Hint) bool {
		return hint.Node == "dri/card0" || hint.Node == "vfio/devices" || hint.Node == ""
	}) {
		t.Errorf("found a hint for what is no node that matters: %+v", h.hints)
	}
	if lost := h.lines(zap.WarnLevel, "source.lost"); len(lost) > 0 && lost[0].ContextMap()["source"] == "inotify" {
		t.Errorf("lost: %v, want none", lost[0].ContextMap())
	}
}

func TestNodesDirectoryMadeLater(t *testing.T) {
	t.Parallel()
	cfg := simulated(t)
	must.Succeed(t, os.Remove(cfg.Host.Dev))
	h := newRecorder(t, cfg)
	h.expectLine(t, zap.WarnLevel, "source.lost", map[string]any{"path": cfg.Host.Dev, "remaining": "uevents and resync"})
	h.run(t)
	h.expectLine(t, zap.DebugLevel, "source.lost", map[string]any{"path": cfg.Host.Dev}) // the next attempt failed too
	mkdir(t, cfg.Host.Dev)
	h.expect(t, watcher.Hint{Source: watcher.SourceReopen})
	write(t, "", cfg.Host.Dev, "dfl-port.0")
	h.expect(t, node("dfl-port.0"))
	compare.Equal(t, "warnings", 1, len(h.logs.FilterLevelExact(zap.WarnLevel).FilterField(zap.String("path", cfg.Host.Dev)).All()))
}

func TestNodesDirectoryReturns(t *testing.T) {
	t.Parallel()
	for _, how := range []struct {
		name string
		lose func(dir string) error
	}{
		{"removed", os.RemoveAll},
		{"moved", func(dir string) error { return os.Rename(dir, dir+".old") }},
		{"replaced by a file", func(dir string) error {
			if err := os.RemoveAll(dir); err != nil {
				return err
			}
			return os.WriteFile(dir, nil, 0o644)
		}},
	} {
		t.Run(how.name, func(t *testing.T) {
			t.Parallel()
			cfg := simulated(t)
			write(t, "", cfg.Host.Dev, "dfl-port.0")
			h := newRecorder(t, cfg)
			h.run(t)
			must.Succeed(t, how.lose(cfg.Host.Dev))
			h.expectLine(t, zap.WarnLevel, "source.lost", map[string]any{"path": cfg.Host.Dev})
			if len(h.Lost()) == 0 {
				t.Errorf("lost: %q, want the source", h.Lost())
			}
			must.Succeed(t, os.RemoveAll(cfg.Host.Dev))
			mkdir(t, cfg.Host.Dev)
			h.expect(t, watcher.Hint{Source: watcher.SourceReopen})
			h.expectLine(t, zap.InfoLevel, "source.recovered", map[string]any{"path": cfg.Host.Dev, "source": "inotify"})
			write(t, "", cfg.Host.Dev, "dfl-fme.0")
			h.expect(t, node("dfl-fme.0"))
		})
	}
}

// More events occur than the kernel can queue (fs.inotify.max_queued_events) before Run reads them.
func TestInotifyOverflow(t *testing.T) {
	if testing.Short() {
		t.Skip("fills a kernel queue")
	}
	for _, where := range []string{"dev", "sys"} {
		t.Run(where, func(t *testing.T) {
			t.Parallel()
			cfg := simulated(t)
			dir := filepath.Join(filepath.Dir(cfg.Host.Dev), where)
			file := write(t, "", dir, "tty0")
			h := newRecorder(t, cfg)
			limit := queueLimit(t)
			// fsnotify's goroutine reads a few thousand events before it waits for a receiver. The kernel merges
			// identical events in a row, so two kinds take turns.
			for range limit + 8192 {
				for _, mode := range []os.FileMode{0o600, 0o644} {
					must.Succeed(t, os.Chmod(file, mode))
					must.Succeed(t, os.Truncate(file, 0))
				}
			}
			mkdir(t, cfg.Host.Sys, "devices/pci0000:00/0000:01:00.0") // this event is lost
			h.run(t)
			h.expect(t, watcher.Hint{Source: watcher.SourceOverflow})
			h.expectLine(t, zap.WarnLevel, "inotify.overflow", map[string]any{"path": dir})
			write(t, "", cfg.Host.Dev, "dfl-port.0")
			h.expect(t, node("dfl-port.0"))
			write(t, "0", cfg.Host.Sys, "devices/pci0000:00/0000:01:00.0/numa_node")
			h.expect(t, watcher.Hint{Card: "0000:01:00.0", Source: watcher.SourceInotify})
		})
	}
}
