package watcher

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"b-com.com/accelerator-device-plugin/internal/backlog"
	"b-com.com/accelerator-device-plugin/internal/backoff"
	"b-com.com/accelerator-device-plugin/internal/metrics"
	"b-com.com/accelerator-device-plugin/internal/pulse"
	"b-com.com/accelerator-device-plugin/internal/sysfs"
)

// Config says which directories, subsystems and nodes to listen to.
type Config struct {
	Host       sysfs.Host // its device directory doesn't have to exist yet
	Subsystems []string   // uevent subsystems, in addition to platform, pci, fpga_region, fpga_manager and fpga
	Nodes      []string   // name prefixes of relevant nodes, e.g. "dfl-" and "vfio/"

	Metrics *metrics.Metrics // required
}

// Hint says where something may have changed: a card, a node or, if both Card and Node are empty, anything.
type Hint struct {
	Card   string    // PCI address DDDD:BB:DD.F in lower-case hex, or ""
	Node   string    // name of a device node if the address isn't known, or ""
	Source string    // one of the Source constants
	At     time.Time // when the event was received
	// RecoveryFailed means that the kernel gave up recovering Card from a PCI error.
	RecoveryFailed bool
}

// Sources of a hint.
const (
	SourceUEvent    = "uevent"    // the kernel reported a device
	SourceInotify   = "inotify"   // a node, or an entry in a simulated tree
	SourceOverflow  = "overflow"  // events were lost in a full queue
	SourceMalformed = "malformed" // a message from the kernel couldn't be parsed
	SourceReopen    = "reopen"    // a source is open again; changes may have been missed while it was closed
)

// Watcher listens for kernel events and turns them into hints. Create it with [New], and call Run or Close once.
type Watcher struct {
	sources []*keeper
}

// New opens the event sources, so no change after New is missed. If a source can't be opened, New logs the error, and
// Run tries again.
func New(cfg Config, log *zap.Logger) *Watcher {
	log = log.Named("watcher")
	w := &Watcher{}
	w.keep(&uevents{filter: newFilter(cfg.Subsystems), log: log, metrics: cfg.Metrics}, keeper{
		kind: sourceUEvent, name: "uevent", remaining: "inotify and resync",
		retry: backoff.Backoff{First: 100 * time.Millisecond, Most: 30 * time.Second},
	}, cfg.Metrics, log)
	found := newNodes(cfg.Host.Dev, cfg.Nodes)
	found.log, found.metrics = log, cfg.Metrics
	w.keep(found, keeper{
		kind: sourceNodes, name: "inotify", path: cfg.Host.Dev, remaining: "uevents and resync",
		retry: backoff.Backoff{First: time.Second, Most: time.Second},
	}, cfg.Metrics, log)
	if cfg.Host.Simulated {
		w.keep(&tree{root: filepath.Clean(cfg.Host.Sys), log: log, metrics: cfg.Metrics}, keeper{
			kind: sourceTree, name: "inotify", path: cfg.Host.Sys, remaining: "resync",
			retry: backoff.Backoff{First: time.Second, Most: time.Second},
		}, cfg.Metrics, log)
	}
	return w
}

func (w *Watcher) keep(src source, k keeper, m *metrics.Metrics, log *zap.Logger) {
	k.src, k.log, k.metrics, k.pulse = src, log, m, pulse.New(pulse.Patience)
	k.lost = new(atomic.Pointer[error])
	k.start()
	w.sources = append(w.sources, &k)
}

// Run calls hint for all events until ctx is done. It then closes the sources and returns nil. Run calls hint
// concurrently from several goroutines, and hint must not block.
func (w *Watcher) Run(ctx context.Context, hint func(Hint)) error {
	var running sync.WaitGroup
	for _, k := range w.sources {
		running.Go(func() {
			defer backlog.FlushOnPanic(k.log)
			k.run(ctx, hint)
		})
	}
	running.Wait()
	return nil
}

// Alive returns an error that lists the sources whose goroutines are hanging, or nil if there are none. A source that
// is waiting for events or waiting to be reopened doesn't count as hanging. Alive is safe for concurrent use.
func (w *Watcher) Alive() error {
	var stuck []error
	for _, k := range w.sources {
		if err := k.pulse.Alive(); err != nil {
			stuck = append(stuck, fmt.Errorf("watcher of %s: %w", k.kind, err))
		}
	}
	return errors.Join(stuck...)
}

// Lost returns one line per lost source. The line names the source and the other sources that still find changes, and
// contains the error. Lost is safe for concurrent use.
func (w *Watcher) Lost() (all []string) {
	for _, k := range w.sources {
		if err := k.lost.Load(); err != nil {
			all = append(all, fmt.Sprintf("watcher of %s: lost, changes are found by %s: %v", k.kind, k.remaining, *err))
		}
	}
	return all
}

// Close closes the sources of a Watcher on which Run hasn't been called.
func (w *Watcher) Close() {
	for _, k := range w.sources {
		k.stop()
	}
}
