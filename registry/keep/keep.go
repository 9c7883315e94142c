package keep

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
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

// Registry has the methods of [transfer.Client] that are used.
type Registry interface {
	Resolve(context.Context, registry.Reference) (artifact.Description, digest.Digest, error)
	Pull(context.Context, registry.Reference, programming.Store, transfer.Options) (transfer.Pulled, error)
}

// Config has the settings of a [Keeper].
type Config struct {
	List     string // path of the file with the references: [ReadList]
	Store    programming.Store
	Interval time.Duration // between two checks of a reference with a tag
	Timeout  time.Duration // of one attempt
	// Open returns the client for one attempt, which reports what it does, and the keys: [transfer.Options]. It reads the
	// files with credentials, authorities and keys again, because they may have been replaced.
	Open    func(log func(text string), progress func(done, total int64)) (Registry, signature.Keys, error)
	Space   func(dir string) (free, total int64, err error) // [Space]
	MinFree int64                                           // percentage of the file system that stays free
	Collect Collect
	Changed func(State) // is called when a reference was installed, fails, or succeeds after a failure; it must not block
	Log     *zap.Logger
}

// The results of attempts.
const (
	Installed = "installed"
	Unchanged = "unchanged"
	Failed    = "failed"
)

// State is the state of a reference.
type State struct {
	Reference string    `json:"reference"`
	Present   bool      `json:"present"`            // the store has the bitstream that the reference named last
	Path      string    `json:"path,omitempty"`     // of that bitstream, in the store
	Digest    string    `json:"digest,omitempty"`   // of its manifest
	Checked   time.Time `json:"checked,omitzero"`   // end of the last attempt that did not fail
	Result    string    `json:"result,omitempty"`   // of the last attempt; "": there was none
	Error     string    `json:"error,omitempty"`    // of the last attempt
	Failures  int       `json:"failures,omitempty"` // in a row
}

// Keeper keeps a list of references in a store. Create it with [New].
type Keeper struct {
	cfg Config

	mu      sync.Mutex
	entries map[string]*entry        // by reference
	busy    map[string]chan struct{} // paths that an attempt installs, or that are removed; closed at the end
	seen    map[string]seen          // by path
	counts  map[string]int           // of attempts, by result
	lock    *privatedir.Lock         // nil: not opened yet
	record  *record                  // nil: not opened yet
	saved   string                   // text of the record in the store; "": not known
}

// entry is a reference of the list.
type entry struct {
	ref   registry.Reference
	state State
	end   context.CancelFunc
}

// seen is a file whose digest was computed.
type seen struct {
	info   fs.FileInfo
	digest digest.Digest
}

// New returns a Keeper that has read the list.
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

// Run keeps the references, and follows changes of the list, until ctx ends. Then it returns nil.
func (k *Keeper) Run(ctx context.Context) error {
	return k.run(ctx, func(changed func()) {
		dirwatch.Run(ctx, dirwatch.Config{
			Dirs: []string{filepath.Dir(k.cfg.List)}, Concerns: func(notify.Event) bool { return true }, // of a ConfigMap, a link is replaced
			Settle: 200 * time.Millisecond, Interval: time.Minute, Blind: 10 * time.Second, Log: k.cfg.Log,
		}, changed)
	})
}

// run is Run. watch calls its argument when the list may have changed, until ctx ends.
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
				k.cfg.Log.Error("list refused, the old one stays", logevent.KeepRefused, logevent.Path(k.cfg.List), logevent.Err(err))
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

// replace makes these references those of the list. It ends the attempts of others, and returns the new entries.
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

// Once makes one attempt for each reference, all at the same time.
func (k *Keeper) Once(ctx context.Context) {
	defer k.close()
	var running sync.WaitGroup
	for _, e := range k.entries {
		running.Go(func() { k.try(ctx, e, 0) })
	}
	running.Wait()
}

// follow tries a reference at intervals until ctx ends. After a failure it tries sooner.
func (k *Keeper) follow(ctx context.Context, e *entry) {
	interval := k.cfg.Interval
	wait := backoff.Backoff{First: 15 * time.Second, Most: min(interval, 10*time.Minute)}
	for {
		next := wait.Next() // if it fails
		if k.try(ctx, e, next) {
			wait.Reset()
			next = interval*3/4 + rand.N(interval/2) // not all nodes at once
		}
		if !backoff.Wait(ctx, next) {
			return
		}
	}
}

// try makes an attempt for a reference, and reports whether it has succeeded. next is the time until the next one if it has
// not; 0: there is none.
func (k *Keeper) try(ctx context.Context, e *entry, next time.Duration) bool {
	began := time.Now()
	attempt, cancel := context.WithTimeoutCause(ctx, k.cfg.Timeout, fmt.Errorf("not done after %s", k.cfg.Timeout))
	defer cancel()
	result, err := k.attempt(attempt, e)
	if ctx.Err() != nil {
		return false // it was removed from the list, or the program ends
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
		s.Failures++
	} else {
		s.Failures, s.Checked = 0, time.Now()
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

// attempt pulls the bitstream of a reference if the store lacks it.
func (k *Keeper) attempt(ctx context.Context, e *entry) (result string, err error) {
	if err := k.open(); err != nil {
		return Failed, err
	}
	k.mu.Lock()
	have := k.record.References[e.state.Reference]
	k.mu.Unlock()
	intact := have.Path != "" && k.intact(have)
	if _, err := e.ref.Digest(); err == nil && intact { // a digest never names anything else
		return Unchanged, nil
	}
	said := time.Now()
	log := k.cfg.Log.With(logevent.Reference(e.state.Reference))
	say := func(text string) { log.Info("pull goes on", logevent.BitstreamProgress, logevent.Reason(text)) }
	client, keys, err := k.cfg.Open(say, func(done, total int64) {
		if time.Since(said) > 10*time.Second {
			said = time.Now()
			say(fmt.Sprintf("downloaded %d of %d MiB", done>>20, total>>20))
		}
	})
	if err != nil {
		return Failed, err
	}
	d, manifest, err := client.Resolve(ctx, e.ref)
	if err != nil {
		return Failed, transfer.Explain(e.ref, err)
	}
	if intact && have.Manifest == manifest {
		return Unchanged, nil
	}
	path := filepath.Join(d.InterfaceID, d.ID()+"."+d.Format)
	release, err := k.reserve(ctx, path)
	if err != nil {
		return Failed, err
	}
	defer release()
	force, err := k.prepare(e, path, d)
	if err != nil {
		return Failed, err
	}
	pinned := e.ref
	pinned.Reference = manifest.String()
	p, err := client.Pull(ctx, pinned, k.cfg.Store, transfer.Options{Force: force, Keys: keys, Shared: true})
	if err != nil {
		return Failed, transfer.Explain(e.ref, err)
	}
	result = Unchanged
	if p.Installed {
		result = Installed
	}
	return result, k.installed(e, path, manifest, d, p.Installed)
}

// prepare reports whether the file at path must be replaced, and records that it may be. It returns an error if the file is
// not one that keep has installed, or if another reference names another content for the same path.
func (k *Keeper) prepare(e *entry, path string, d artifact.Description) (force bool, err error) {
	sum, _, err := k.sum(d.InterfaceID, d.ID())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	for reference, other := range k.record.References {
		if reference != e.state.Reference && k.entries[reference] != nil && other.Path == path && other.File != d.File {
			return false, fmt.Errorf("%s: names the same bitstream %s as %s, with another content: keep one of them in the list", e.state.Reference, path, reference)
		}
	}
	own, ours := k.record.Files[path]
	switch {
	case sum == d.File:
		return false, nil
	case sum != "" && !own.has(sum):
		return false, fmt.Errorf("%s: found a file that keep has not installed, want none or the file with digest %s: remove it, or %s from the list",
			filepath.Join(string(k.cfg.Store), path), d.File, e.state.Reference)
	case !ours && len(k.record.Files) >= mostFiles:
		return false, fmt.Errorf("%s: found %d files that were pulled for the list, want fewer: turn on collecting, or remove some", k.cfg.Store, mostFiles)
	}
	if !ours {
		own = file{InterfaceID: d.InterfaceID, ID: d.ID(), AFUID: d.AFUID, Size: d.Size}
	}
	if err := k.enough(d.Size); err != nil {
		return false, err
	}
	own.Next = d.File
	k.record.Files[path] = own
	return sum != "", k.save()
}

// enough returns an error unless the file system has space for a bitstream, twice while it is installed, and MinFree is left
// then. With less, the kubelet would evict pods, and a tag that moves all the time would fill the disk of the node.
func (k *Keeper) enough(size int64) error {
	free, total, err := k.cfg.Space(string(k.cfg.Store))
	if err != nil {
		return err
	}
	if want := 2*size + total/100*k.cfg.MinFree; free < want {
		return fmt.Errorf("%s: found %d MiB of free space, want %d MiB: %d %% of the file system, and twice the bitstream", k.cfg.Store, free>>20, want>>20, k.cfg.MinFree)
	}
	return nil
}

// Space returns the free and the total bytes of the file system of a directory.
func Space(dir string) (free, total int64, err error) {
	var at syscall.Statfs_t
	if err := syscall.Statfs(dir, &at); err != nil {
		return 0, 0, &fs.PathError{Op: "statfs", Path: dir, Err: err}
	}
	return int64(at.Bavail) * int64(at.Bsize), int64(at.Blocks) * int64(at.Bsize), nil
}

// installed records that the reference has the file at path.
func (k *Keeper) installed(e *entry, path string, manifest digest.Digest, d artifact.Description, byUs bool) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if own, ours := k.record.Files[path]; byUs || ours && own.has(d.File) {
		k.record.Files[path] = file{InterfaceID: d.InterfaceID, ID: d.ID(), AFUID: d.AFUID, Digest: d.File, Size: d.Size}
	} else {
		delete(k.record.Files, path) // somebody else has installed this content
	}
	if k.entries[e.state.Reference] == e { // still in the list
		k.record.References[e.state.Reference] = named{manifest, path, d.File}
	}
	return k.save()
}

// open takes the lock, and reads the record.
func (k *Keeper) open() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.record != nil {
		return nil
	}
	dir, err := privatedir.OpenDir(string(k.cfg.Store), true)
	if err != nil {
		return err
	}
	defer dir.Close()
	lock, err := privatedir.TryLock(dir, lockName, privatedir.Exclusive)
	if err != nil {
		return err
	}
	if lock == nil {
		return fmt.Errorf("%s: another process keeps a list in this store, want one at a time: fuser -v %[1]s", filepath.Join(dir.Name(), lockName))
	}
	r, err := readRecord(dir)
	if err != nil {
		lock.Release()
		return err
	}
	k.lock, k.record = lock, r
	return nil
}

func (k *Keeper) close() {
	if k.lock != nil {
		k.lock.Release()
	}
}

// save writes the record if it has changed. k.mu is held.
func (k *Keeper) save() error {
	k.record.update(func(reference string) bool { return k.entries[reference] != nil }, time.Now())
	text, err := k.record.text()
	if err != nil || text == k.saved {
		return err
	}
	k.saved = ""
	dir, err := privatedir.OpenDir(string(k.cfg.Store), true)
	if err != nil {
		return err
	}
	defer dir.Close()
	if _, err := privatedir.ReplaceFile(dir, recordName, []byte(text)); err != nil {
		return err
	}
	k.saved = text
	return nil
}

// reserve waits until no other attempt uses a path.
func (k *Keeper) reserve(ctx context.Context, path string) (release func(), err error) {
	for {
		k.mu.Lock()
		other := k.busy[path]
		if other == nil {
			mine := make(chan struct{})
			k.busy[path] = mine
			k.mu.Unlock()
			return func() {
				k.mu.Lock()
				delete(k.busy, path)
				k.mu.Unlock()
				close(mine)
			}, nil
		}
		k.mu.Unlock()
		select {
		case <-other:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// intact reports whether the store has the file. The file is read only if it has changed since the last time.
func (k *Keeper) intact(n named) bool {
	info, err := os.Lstat(filepath.Join(string(k.cfg.Store), n.Path))
	if err != nil {
		return false
	}
	k.mu.Lock()
	last := k.seen[n.Path]
	k.mu.Unlock()
	if last.info != nil && same(last.info, info) {
		return last.digest == n.File
	}
	interfaceID, name := filepath.Split(n.Path)
	sum, info, err := k.sum(filepath.Clean(interfaceID), strings.TrimSuffix(name, filepath.Ext(name)))
	if err != nil {
		return false
	}
	k.mu.Lock()
	k.seen[n.Path] = seen{info, sum}
	k.mu.Unlock()
	return sum == n.File
}

// same reports whether a file is unchanged. Its ctime changes with its content, owner and mode.
func same(a, b fs.FileInfo) bool {
	at, ok := a.Sys().(*syscall.Stat_t)
	bt, ok2 := b.Sys().(*syscall.Stat_t)
	return ok && ok2 && os.SameFile(a, b) && a.Size() == b.Size() && at.Ctim == bt.Ctim
}

// sum returns the digest of a bitstream in the store, and its file as it was before it was read.
func (k *Keeper) sum(interfaceID, id string) (digest.Digest, fs.FileInfo, error) {
	b, err := k.cfg.Store.Lookup(interfaceID, id)
	if err != nil {
		return "", nil, err
	}
	defer b.Close()
	info, err := os.Lstat(b.Path)
	if err != nil {
		return "", nil, err
	}
	sum, err := digest.FromReader(b.Content())
	return sum, info, err
}

// States returns the states of the references, sorted, and the numbers of attempts by result.
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

// Ready returns an error until there was an attempt for each reference of the list.
func (k *Keeper) Ready(context.Context) error {
	all, _ := k.States()
	for _, s := range all {
		if s.Result == "" {
			return fmt.Errorf("%s: found no attempt yet, want one for each reference", s.Reference)
		}
	}
	return nil
}
