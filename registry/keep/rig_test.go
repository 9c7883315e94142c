package keep_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/opencontainers/go-digest"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
	"oras.land/oras-go/v2/registry"

	"b-com.com/accelerator-device-plugin/programming"
	"b-com.com/accelerator-device-plugin/registry/artifact"
	"b-com.com/accelerator-device-plugin/registry/keep"
	"b-com.com/accelerator-device-plugin/registry/signature"
	"b-com.com/accelerator-device-plugin/registry/transfer"
	bits "b-com.com/accelerator-device-plugin/test/bitstreamtest"
	"b-com.com/accelerator-device-plugin/test/eventtest"
	"b-com.com/accelerator-device-plugin/test/must"
	"b-com.com/accelerator-device-plugin/test/privatedirtest"
)

const (
	nlb      = "registry.example.com/fpga/nlb:1.0"
	vadd     = "registry.example.com/fpga/vadd:1.0"
	nlbPath  = bits.Interface + "/" + bits.AFU + ".gbs"
	vaddPath = bits.Interface + "/" + bits.OtherAFU + ".gbs"
)

// gbs returns a bitstream with this id.
func gbs(afuID, content string) []byte {
	return bits.GBS(bits.Metadata(bits.Interface, afuID), []byte(content))
}

var (
	nlbFile  = gbs(bits.AFU, "nlb")
	vaddFile = gbs(bits.OtherAFU, "vadd")
)

// rig is a list and a store, and a registry in memory.
type rig struct {
	t    *testing.T
	cfg  keep.Config
	dir  string
	logs *observer.ObservedLogs

	mu      sync.Mutex
	names   map[string][]byte                               // by reference: the file
	fail    map[string]error                                // of a reference; errHang blocks until the attempt ends
	after   error                                           // of a pull that has installed the file
	during  func(context.Context, registry.Reference) error // is called by a pull before it has all of the file
	asked   map[string][]time.Duration
	pulled  []string
	say     func(string)             // of the last attempt
	locks   map[string]chan struct{} // of parts
	changed []keep.State

	keeper *keep.Keeper
	poke   chan struct{}
	stop   func()
}

var errHang = errors.New("hang")

func newRig(t *testing.T, references ...string) *rig {
	core, logs := eventtest.Observed(t)
	r := &rig{
		t: t, dir: t.TempDir(), logs: logs, fail: map[string]error{}, asked: map[string][]time.Duration{}, locks: map[string]chan struct{}{},
		names: map[string][]byte{nlb: nlbFile, vadd: vaddFile}, stop: func() {},
	}
	r.cfg = keep.Config{
		List: filepath.Join(r.dir, "references.txt"), Store: programming.Store(filepath.Join(privatedirtest.Dir(t), "fpga")),
		Interval: 10 * time.Minute, Timeout: time.Hour,
		Open: func(log func(string), _ func(done, total int64)) (keep.Registry, signature.Keys, error) {
			r.set(func() { r.say = log })
			return r, nil, nil
		},
		Space:   func(string) (free, total int64, err error) { return 20 << 20, 100 << 20, nil },
		MinFree: 10,
		Collect: keep.Collect{Loaded: func() ([]string, error) { return nil, nil }},
		Changed: func(s keep.State) { r.set(func() { r.changed = append(r.changed, s) }) },
		Log:     zap.New(core),
	}
	r.list(references...)
	return r
}

// story runs a test in a bubble of synctest, with a rig.
func story(t *testing.T, test func(r *rig), references ...string) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, references...)
		defer func() { r.stop() }()
		test(r)
	})
}

// list writes the list.
func (r *rig) list(references ...string) {
	r.t.Helper()
	must.Succeed(r.t, os.WriteFile(r.cfg.List, []byte("# list\n\n"+strings.Join(references, "\n")+"\n"), 0o644))
}

// start starts a Keeper, and waits until it has nothing to do.
func (r *rig) start() {
	r.t.Helper()
	r.stop()
	k := must.Value(keep.New(r.cfg))(r.t)
	ctx, cancel := context.WithCancel(r.t.Context())
	poke, ended := make(chan struct{}), make(chan error)
	go func() {
		ended <- k.RunWith(ctx, func(changed func()) {
			for {
				select {
				case <-poke:
					changed()
				case <-ctx.Done():
					return
				}
			}
		})
	}()
	r.keeper, r.poke = k, poke
	r.stop = func() {
		cancel()
		must.Succeed(r.t, <-ended)
		r.stop = func() {}
	}
	synctest.Wait()
}

// relist changes the list of the running Keeper.
func (r *rig) relist(references ...string) {
	r.t.Helper()
	r.list(references...)
	r.poke <- struct{}{}
	synctest.Wait()
}

// pass lets time pass.
func (r *rig) pass(d time.Duration) {
	time.Sleep(d) // of the bubble
	synctest.Wait()
}

// once makes one attempt for each reference with a new Keeper, and returns their results by reference.
func (r *rig) once() map[string]string {
	r.t.Helper()
	k := must.Value(keep.New(r.cfg))(r.t)
	k.Once(r.t.Context())
	return results(k)
}

// results returns the results of the references: "installed, present", or the error.
func results(k *keep.Keeper) map[string]string {
	all := map[string]string{}
	states, _ := k.States()
	for _, s := range states {
		text := s.Result + s.Error
		if s.Present {
			text += ", present"
		}
		all[s.Reference] = text
	}
	return all
}

// store returns the contents of the bitstreams in the store, by path.
func (r *rig) store() map[string]string {
	r.t.Helper()
	files := map[string]string{}
	err := filepath.WalkDir(string(r.cfg.Store), func(path string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() && filepath.Ext(path) == ".gbs" {
			name, _ := filepath.Rel(string(r.cfg.Store), path)
			files[name] = string(must.Value(os.ReadFile(path))(r.t))
		}
		return err
	})
	if !errors.Is(err, fs.ErrNotExist) {
		must.Succeed(r.t, err)
	}
	return files
}

// install installs a file by hand.
func (r *rig) install(file []byte) {
	r.t.Helper()
	must.Value(r.cfg.Store.Install(r.t.Context(), r.bitstream(file), programming.InstallOptions{Force: true}))(r.t)
}

// bitstream opens a file with this content.
func (r *rig) bitstream(content []byte) *programming.Bitstream {
	r.t.Helper()
	path := filepath.Join(r.t.TempDir(), "file.gbs")
	must.Succeed(r.t, os.WriteFile(path, content, 0o644))
	b := must.Value(programming.Open(path))(r.t)
	r.t.Cleanup(func() { b.Close() })
	return b
}

// events returns the events of the log with their errors, except events of level debug, and forgets them.
func (r *rig) events() []string {
	var all []string
	for _, line := range r.logs.TakeAll() {
		if line.Level == zap.DebugLevel {
			continue
		}
		fields := line.ContextMap()
		all = append(all, strings.Trim(fmt.Sprintf("%s %v %v", fields["event"], fields["reference"], fields["error"]), " "))
	}
	slices.Sort(all)
	return all
}

// set changes what the registry has, and its errors.
func (r *rig) set(change func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	change()
}

var start = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC) // of the time in a bubble

// Resolve implements keep.Registry. The digest of a manifest depends only on the file.
func (r *rig) Resolve(ctx context.Context, ref registry.Reference) (artifact.Description, digest.Digest, error) {
	var err error
	r.set(func() {
		name := ref.String()
		r.asked[name] = append(r.asked[name], time.Since(start))
		err = r.fail[name]
	})
	if errors.Is(err, errHang) {
		<-ctx.Done()
		err = context.Cause(ctx)
	}
	if err != nil {
		return artifact.Description{}, "", err
	}
	_, d, manifest, err := r.open(ref)
	return d, manifest, err
}

// manifestOf returns the digest of the manifest of a file.
func manifestOf(file []byte) digest.Digest { return digest.FromString("manifest of " + string(file)) }

// open returns the bitstream that a reference names, what its manifest announces, and the manifest's digest.
func (r *rig) open(ref registry.Reference) (*programming.Bitstream, artifact.Description, digest.Digest, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(r.names)) {
		content := r.names[name]
		if repository, _, _ := strings.Cut(name, ":"); ref.String() == name ||
			repository == ref.Registry+"/"+ref.Repository && ref.Reference == manifestOf(content).String() {
			b := r.bitstream(content)
			return b, artifact.Describe(b, digest.FromBytes(content), int64(len(content))), manifestOf(content), nil
		}
	}
	return nil, artifact.Description{}, "", fmt.Errorf("found no %s in the registry", ref)
}

// Pull implements keep.Registry with the same rules as transfer.Client.
func (r *rig) Pull(ctx context.Context, ref registry.Reference, store programming.Store, o transfer.Options) (transfer.Pulled, error) {
	b, d, _, err := r.open(ref)
	if err != nil {
		return transfer.Pulled{}, err
	}
	name := transfer.PartName(d)
	var lock chan struct{}
	r.set(func() {
		r.pulled = append(r.pulled, ref.String())
		if r.locks[name] == nil {
			r.locks[name] = make(chan struct{}, 1)
		}
		lock = r.locks[name]
	})
	select {
	case lock <- struct{}{}:
		defer func() { <-lock }()
	case <-ctx.Done():
		return transfer.Pulled{}, context.Cause(ctx)
	}
	if old, err := store.Lookup(b.InterfaceID, b.ID()); err == nil {
		defer old.Close()
		if must.Value(digest.FromReader(old.Content()))(r.t) == d.File {
			return transfer.Pulled{Path: old.Path, Bitstream: old}, nil
		}
	}
	part := filepath.Join(string(store), name)
	must.Succeed(r.t, os.WriteFile(part, nil, 0o600))
	if r.during != nil {
		if err := r.during(ctx, ref); err != nil {
			return transfer.Pulled{}, err // the part stays
		}
	}
	must.Succeed(r.t, os.Remove(part))
	if err := o.Ready(); err != nil {
		return transfer.Pulled{}, err
	}
	path, err := store.Install(ctx, b, programming.InstallOptions{Force: o.Force})
	return transfer.Pulled{Path: path, Bitstream: b, Installed: err == nil}, errors.Join(err, r.after)
}

// parts returns the number of parts of pulls in the store.
func (r *rig) parts() int {
	r.t.Helper()
	return len(must.Value(filepath.Glob(filepath.Join(string(r.cfg.Store), ".pull-*.gbs")))(r.t))
}

// line returns an event of a reference as events does.
func line(event zap.Field, reference, err string) string {
	if err == "" {
		err = "<nil>"
	}
	return event.String + " " + reference + " " + err
}
