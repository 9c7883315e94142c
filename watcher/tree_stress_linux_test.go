package watcher_test

import (
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"go.uber.org/zap"
)

// Thousands of directories are created, removed and moved faster than they can be watched. In the end, every remaining
// directory is watched under the right name.
func TestTreeStress(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 0))
	cfg := simulated(t)
	root := mkdir(t, cfg.Host.Sys, bridgeDir)
	b := &barrier{sys: cfg.Host.Sys}
	h := newRecorder(t, cfg)
	h.run(t)

	name := func() string { return fmt.Sprintf("0000:%02x:00.0", random.IntN(6)) }
	place := func() string {
		path := filepath.Join(root, name())
		for range random.IntN(3) {
			path = filepath.Join(path, fmt.Sprintf("dir%d", random.IntN(2)))
		}
		return path
	}
	b.between(t, h, func() error {
		for range 3000 {
			// Errors are ignored, because a path may or may not exist.
			switch random.IntN(4) {
			case 0, 1:
				_ = os.MkdirAll(place(), 0o755)
			case 2:
				_ = os.RemoveAll(place())
			case 3:
				_ = os.Rename(place(), place())
			}
		}
		return nil
	})

	h.logs.TakeAll()
	probes := map[string]bool{}
	b.between(t, h, func() error {
		return filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if err == nil && d.IsDir() {
				probes[write(t, "", path, "probe")] = true
			}
			return err
		})
	})
	for _, line := range h.lines(zap.DebugLevel, "inotify.event") {
		delete(probes, line.ContextMap()["path"].(string))
	}
	for path := range probes {
		t.Errorf("not watched: %s", filepath.Dir(path))
	}
}
