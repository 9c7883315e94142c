package keep

import (
	"context"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/opencontainers/go-digest"
	"go.uber.org/zap"
	"oras.land/oras-go/v2/registry"

	"b-com.com/accelerator-device-plugin/internal/backoff"
	"b-com.com/accelerator-device-plugin/internal/dirwatch"
	"b-com.com/accelerator-device-plugin/internal/logevent"
	"b-com.com/accelerator-device-plugin/internal/notify"
	"b-com.com/accelerator-device-plugin/internal/privatedir"
	"b-com.com/accelerator-device-plugin/programming"
	"b-com.com/accelerator-device-plugin/registry/artifact"
	"b-com.com/accelerator-device-plugin/registry/signature"
	"b-com.com/accelerator-device-plugin/registry/transfer"
)

// Registry is the part of [transfer.Client] that keep uses.
type Registry interface {
	Resolve(context.Context, registry.Reference) (artifact.Description, digest.Digest, error)
	Pull(context.Context, registry.Reference, programming.Store, transfer.Options) (transfer.Pulled, error)
}

// Config configures a [Keeper].
type Config struct {
	List     string // file with the references; see [ReadList]
	Store    programming.Store
	Interval time.Duration // time between checks of a tag
	Timeout  time.Duration // time limit for an attempt
	// Open returns the client for an attempt, and the keys for [transfer.Options]. The client calls log and progress to
	// report what it is doing. Open rereads the files with credentials, CA certificates and keys each time, because
	// they may have been replaced.
	Open    func(log func(text string), progress func(done, total int64)) (Registry, signature.Keys, error)
	Space   func(dir string) (free, total int64, err error) // usually [Space]
	MinFree int64                                           // percentage of the file system to leave free
	Collect Collect
	Changed func(State) // called after an attempt that installed a bitstream, failed, or succeeded after a failure; must not block
	Log     *zap.Logger
}

// Results of attempts.
const (
	Installed = "installed"
	Unchanged = "unchanged"
	Failed    = "failed"
)

// State is the state of a reference.
type State struct {
	Reference string
	Present   bool      // whether the store contains the bitstream that the reference named when last checked
	Path      string    // this bitstream's path in the store
	Digest    string    // this bitstream's manifest digest
	Checked   time.Time // end of the last successful attempt
	Result    string    // of the last attempt; "" before the first
	Error     string    // of the last attempt
}

// Keeper makes sure that a store contains the bitstreams named by a list of references. Create it with [New].
type Keeper struct {
	cfg Config

	mu      sync.Mutex
	entries map[string]*entry        // by reference
	busy    map[string]chan struct{} // by path, while a file is being installed or removed there; then closed
	seen    map[string]seen          // by path
	counts  map[string]int           // number of attempts, by result
	pulling int64                    // how many bytes running pulls may still need
	lock    *privatedir.Lock         // nil if not locked yet
	record  *record                  // nil if not read yet
	saved   string                   // the record as it is in the store; "" if unknown
}

// entry is a reference on the list.
type entry struct {
	ref   registry.Reference
	state State
	part  string // partial download that the last pull may have left in the store
	end   context.CancelFunc
}

// seen caches the digest of a file.
type seen struct {
	info   fs.FileInfo
	digest digest.Digest
}

// New reads the list and returns a Keeper.
func New(cfg Config) (*Keeper, error) {
	refs, err := ReadList(cfg.List)
	if err != nil {
		return nil, err
	}
	k := &Keeper{cfg: cfg, entries: map[string]*entry{}, busy: map[string]chan struct{}{}, seen: map[string]seen{}, counts: map[string]int{}}
	for _, ref := range refs {
		k.entries[ref.String()] = &entry{ref: ref, state: State{Reference: ref.String()}, end: func() {}}
	}
	return k, nil
}

// Run keeps the bitstreams up to date, following changes to the list, until ctx is done. It then returns nil.
func (k *Keeper) Run(ctx context.Context) error {
	return k.run(ctx, func(changed func()) {
		dirwatch.Run(ctx, dirwatch.Config{
			Dirs: []string{filepath.Dir(k.cfg.List)}, Concerns: func(notify.Event) bool { return true }, // any file counts, because a ConfigMap volume replaces a link
			Settle: 200 * time.Millisecond, Interval: time.Minute, Blind: 10 * time.Second, Log: k.cfg.Log,
		}, changed)
	})
}

// run implements Run. watch calls its argument whenever the list may have changed, until ctx is done.
func (k *Keeper) run(ctx context.Context, watch func(changed func())) error {
	defer k.close()
	var running sync.WaitGroup
	defer running.Wait()
	start := func(e *entry) {
		var of context.Context
		of, e.end = context.WithCancel(ctx)
		running.Go(func() { k.follow(of, e) })
	}
	for _, e := range k.entries {
		start(e)
	}
	running.Go(func() { k.collectAll(ctx) })
	refused := ""
	watch(func() {
		refs, err := ReadList(k.cfg.List)
		if err != nil {
			if refused != err.Error() {
				refused = err.Error()
				k.cfg.Log.Error("list refused, previous list kept", logevent.KeepRefused, logevent.Path(k.cfg.List), logevent.Err(err))
			}
			return
		}
		refused = ""
		for _, e := range k.replace(refs) {
			start(e)
		}
	})
	return nil
}

// replace replaces the list, ends the attempts for references that are no longer on it, and returns the new entries.
func (k *Keeper) replace(refs []registry.Reference) (added []*entry) {
	k.mu.Lock()
	defer k.mu.Unlock()
	listed := map[string]bool{}
	for _, ref := range refs {
		listed[ref.String()] = true
		if k.entries[ref.String()] == nil {
			e := &entry{ref: ref, state: State{Reference: ref.String()}}
			k.entries[ref.String()] = e
			added = append(added, e)
		}
	}
	removed := false
	for reference, e := range k.entries {
		if !listed[reference] {
			e.end()
			delete(k.entries, reference)
			removed = true
		}
	}
	if removed || added != nil {
		k.cfg.Log.Info("list read", logevent.KeepListed, logevent.Path(k.cfg.List), logevent.Count(len(refs)))
	}
	return added
}

// Once makes one attempt per reference, all in parallel.
func (k *Keeper) Once(ctx context.Context) {
	defer k.close()
	var running sync.WaitGroup
	for _, e := range k.entries {
		running.Go(func() { k.try(ctx, e, 0) })
	}
	running.Wait()
}

// follow tries a reference at intervals, and sooner after a failure, until ctx is done.
func (k *Keeper) follow(ctx context.Context, e *entry) {
	interval := k.cfg.Interval
	wait := backoff.Backoff{First: 15 * time.Second, Most: min(interval, 10*time.Minute)}
	for {
		next := wait.Next() // in case it fails
		if k.try(ctx, e, next) {
			wait.Reset()
			next = interval*3/4 + rand.N(interval/2) // random, so that the nodes don't all ask at once
		}
		if !backoff.Wait(ctx, next) {
			return
		}
	}
}

// try attempts to pull or check a reference, and reports whether that succeeded. next is the time until the next
// attempt if this one fails, or 0 if there won't be one.
func (k *Keeper) try(ctx context.Context, e *entry, next time.Duration) bool {
	began := time.Now()
	attempt, cancel := context.WithTimeoutCause(ctx, k.cfg.Timeout, fmt.Errorf("not done after %s", k.cfg.Timeout))
	defer cancel()
	result, err := k.attempt(attempt, e)
	if ctx.Err() != nil {
		return false // the reference was removed from the list, or the program is ending
	}
	k.mu.Lock()
	var now named
	if k.record != nil {
		now = k.record.References[e.state.Reference]
	}
	k.mu.Unlock()
	present := now.Path != "" && k.intact(now)

	k.mu.Lock()
	was := e.state
	s := &e.state
	s.Present, s.Path, s.Digest, s.Result, s.Error = present, now.Path, now.Manifest.String(), result, ""
	if err != nil {
		s.Error = err.Error()
	} else {
		s.Checked = time.Now()
	}
	k.counts[result]++
	is := *s
	k.mu.Unlock()

	log := k.cfg.Log.With(logevent.Reference(is.Reference))
	first := was.Result == "" || was.Result == Failed
	switch {
	case err != nil:
		level, retry := zap.DebugLevel, zap.Skip()
		if is.Error != was.Error {
			level = zap.WarnLevel
		}
		if next > 0 {
			retry = logevent.Retry(next)
		}
		log.Log(level, "bitstream not pulled or checked", logevent.BitstreamFailed, logevent.Err(err), retry)
	case result == Installed:
		log.Info("bitstream installed", logevent.BitstreamInstalled, logevent.Digest(is.Digest), logevent.Path(is.Path), logevent.Lasted(time.Since(began)))
	case first:
		log.Info("bitstream present", logevent.BitstreamPresent, logevent.Digest(is.Digest), logevent.Path(is.Path))
	default:
		log.Debug("bitstream present", logevent.BitstreamPresent, logevent.Digest(is.Digest), logevent.Path(is.Path))
	}
	if err != nil || result == Installed || was.Result == Failed {
		k.cfg.Changed(is)
	}
	return err == nil
}

// States returns the state of each reference, sorted by reference, and the number of attempts by result.
func (k *Keeper) States() ([]State, map[string]int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	var all []State
	for _, e := range k.entries {
		all = append(all, e.state)
	}
	slices.SortFunc(all, func(a, b State) int { return strings.Compare(a.Reference, b.Reference) })
	counts := map[string]int{Installed: k.counts[Installed], Unchanged: k.counts[Unchanged], Failed: k.counts[Failed]}
	return all, counts
}

// Ready returns an error until the Keeper has tried every reference on the list.
func (k *Keeper) Ready(context.Context) error {
	all, _ := k.States()
	for _, s := range all {
		if s.Result == "" {
			return fmt.Errorf("%s: found no attempt yet, want one for each reference", s.Reference)
		}
	}
	return nil
}
