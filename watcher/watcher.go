package watcher

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"time"

	"go.uber.org/zap"

	"b-com.com/accelerator-device-plugin/internal/backlog"
	"b-com.com/accelerator-device-plugin/internal/backoff"
	"b-com.com/accelerator-device-plugin/internal/metrics"
	"b-com.com/accelerator-device-plugin/internal/pulse"
	"b-com.com/accelerator-device-plugin/internal/sysfs"
)

// Config says where to listen and what for.
type Config struct {
	Sysfs      string   // root of the sysfs tree; must be a directory
	Dev        string   // directory of the device nodes; may come later
	Subsystems []string // uevent subsystems beside platform, pci, fpga_region, fpga_manager, fpga
	Nodes      []string // prefixes of the names of nodes in Dev that matter, e.g. "dfl-"

	Metrics *metrics.Metrics // required
}

// Hint says where something may have changed. Card and Node both empty mean
// everywhere.
type Hint struct {
	Card   string    // PCI address DDDD:BB:DD.F in lower-case hex, or ""
	Node   string    // name of a node in Dev, for news that knows no address, or ""
	Source string    // one of the Source constants
	At     time.Time // when it was received
	// RecoveryFailed: the kernel gave up recovering Card from a PCI error.
	RecoveryFailed bool
}

// Where a hint comes from.
const (
	SourceUEvent    = "uevent"    // the kernel named a device
	SourceInotify   = "inotify"   // a node, or an entry of a simulated tree
	SourceOverflow  = "overflow"  // events were lost in a full queue
	SourceMalformed = "malformed" // the kernel said something that was not understood
	SourceReopen    = "reopen"    // a source is back; what happened meanwhile is not known
)

// Watcher listens. Make one with [New] and use it once.
type Watcher struct {
	sources []*keeper

	mu   sync.Mutex
	used bool // by Run or Close
}

// New opens the sources: nothing that happens after it is missed. Its errors
// mean misconfiguration: Sysfs is not a directory, or Dev exists and is none. A
// source that is refused is no error but a warning, and retried by Run.
func New(cfg Config, log *zap.Logger) (*Watcher, error) {
	if err := checkRoots(cfg); err != nil {
		return nil, err
	}
	deaf, err := sysfs.IsSysfs(cfg.Sysfs)
	if err != nil {
		return nil, err
	}

	log = log.Named("watcher")
	w := &Watcher{}
	w.keep(&uevents{filter: newFilter(cfg.Subsystems), log: log, metrics: cfg.Metrics}, keeper{
		kind: sourceUEvent, name: "uevent", remaining: "inotify and resync",
		retry: backoff.Backoff{First: 100 * time.Millisecond, Most: 30 * time.Second},
	}, cfg.Metrics, log)
	w.keep(&nodes{dir: filepath.Clean(cfg.Dev), prefixes: cfg.Nodes, log: log, metrics: cfg.Metrics}, keeper{
		kind: sourceNodes, name: "inotify", path: cfg.Dev, remaining: "uevents and resync",
		retry: backoff.Backoff{First: time.Second, Most: time.Second},
	}, cfg.Metrics, log)
	if !deaf {
		w.keep(&tree{root: filepath.Clean(cfg.Sysfs), log: log, metrics: cfg.Metrics}, keeper{
			kind: sourceTree, name: "inotify", path: cfg.Sysfs, remaining: "resync",
			retry: backoff.Backoff{First: time.Second, Most: time.Second},
		}, cfg.Metrics, log)
	}
	return w, nil
}

func (w *Watcher) keep(src source, k keeper, m *metrics.Metrics, log *zap.Logger) {
	k.src, k.log, k.metrics, k.pulse = src, log, m, pulse.New(pulse.Patience)
	k.start()
	w.sources = append(w.sources, &k)
}

// Run passes on hints until ctx ends, then closes everything and returns nil.
// It calls hint from several goroutines, which hint must not hold up. An error
// means that the Watcher was used before.
func (w *Watcher) Run(ctx context.Context, hint func(Hint)) error {
	if !w.use() {
		return errors.New("watcher: used before")
	}
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

// Alive returns nil, or which sources have heard something and are stuck with it:
// they neither hear nor hint any more. One that waits for news is alive, and so is
// one that is lost and tried again. Anyone may call it at any time.
func (w *Watcher) Alive() error {
	var stuck []error
	for _, k := range w.sources {
		if err := k.pulse.Alive(); err != nil {
			stuck = append(stuck, fmt.Errorf("watcher of %s: %w", k.kind, err))
		}
	}
	return errors.Join(stuck...)
}

// Close releases a Watcher that was never run. After Run it does nothing: the
// end of Run's context closes everything.
func (w *Watcher) Close() {
	if !w.use() {
		return
	}
	for _, k := range w.sources {
		k.stop()
	}
}

func (w *Watcher) use() (first bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	first = !w.used
	w.used = true
	return first
}
