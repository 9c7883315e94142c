package watcher_test

import (
	"fmt"
	"os"
	"syscall"
	"testing"

	"go.uber.org/zap"

	"b-com.com/accelerator-device-plugin/internal/logevent"
	"b-com.com/accelerator-device-plugin/test/compare"
	"b-com.com/accelerator-device-plugin/test/eventtest"
	"b-com.com/accelerator-device-plugin/test/must"
	"b-com.com/accelerator-device-plugin/test/sysfstest"
	"b-com.com/accelerator-device-plugin/watcher"
)

// A watcher created while the process is out of descriptors logs once per source that the source is lost, and opens it
// once there are descriptors again. The test can't run in parallel, because other tests would run out of descriptors
// too.
func TestOpenedOutOfDescriptors(t *testing.T) {
	cfg := simulated(t)
	mkdir(t, cfg.Host.Sys, "a/b")
	var limit syscall.Rlimit
	must.Succeed(t, syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit))
	setLimit := func(n uint64) {
		t.Helper()
		must.Succeed(t, syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: n, Max: limit.Max}))
	}
	defer setLimit(limit.Cur)
	setLimit(3)
	h := newRecorder(t, cfg)
	h.run(t)
	compare.Equal(t, "warnings that a source is lost", 3, len(h.lines(zap.WarnLevel, "source.lost")))
	h.expectLine(t, zap.DebugLevel, "source.lost", map[string]any{"source": "uevent"}) // the next attempt failed too
	setLimit(limit.Cur)
	for range 3 {
		h.expect(t, watcher.Hint{Source: watcher.SourceReopen})
	}
	compare.Equal(t, "warnings that a source is lost", 3, len(h.lines(zap.WarnLevel, "source.lost")))
	write(t, "", cfg.Host.Sys, "a/b/c")
	h.expect(t, watcher.Hint{Source: watcher.SourceInotify})
	write(t, "", cfg.Host.Dev, "dfl-port.0")
	h.expect(t, node("dfl-port.0"))
}

// If any access to a tree fails because of a shortage, the source is lost and reopened. Otherwise a directory could
// stay unwatched.
func TestTreeIsWatchedCompletelyOrLost(t *testing.T) {
	cfg := simulated(t)
	mkdir(t, cfg.Host.Sys, "a/b")
	mkdir(t, cfg.Host.Sys, "c/d")
	must.Succeed(t, os.Symlink("../a", cfg.Host.Sys+"/c/a"))
	for nth, accesses := -1, 0; nth < accesses; nth++ { // the first iteration has no shortage
		core, logs := eventtest.Observed(t)
		var w *watcher.Watcher
		accesses = max(accesses, sysfstest.Refuse(t, nth, func() { w = watcher.New(cfg, zap.New(core)) }))
		w.Close()
		tree := logs.FilterField(zap.String("path", cfg.Host.Sys))
		lost := tree.FilterField(logevent.SourceLost).FilterMessage("source lost").Len()
		whole := tree.FilterField(logevent.SourceOpened).FilterField(logevent.Count(5)).Len()
		compare.Equal(t, fmt.Sprintf("access %d: a tree that is either watched completely or lost, %v", nth, tree.All()), 1, lost+whole)
	}
}
