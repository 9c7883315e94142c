package holders

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"b-com.com/accelerator-device-plugin/internal/boot"
	"b-com.com/accelerator-device-plugin/internal/privatedir"
	"b-com.com/accelerator-device-plugin/offer/draname"
)

const (
	injectedFile = "injected.json"
	injectedLock = "injected.lock"
	maxInjected  = 1 << 20     // maximum file size in bytes; a device takes up about 60
	lockWithin   = time.Second // other daemons hold the lock only for milliseconds

	openWithin = 5 * time.Second // how long reading the state directory may take at startup
	diskWithin = 2 * time.Second // how long a later access may take before the file system is considered hung
)

// Injected remembers the device nodes that containers get through CDI and that are therefore not in the kubelet's
// checkpoint: the nodes that belong to claims, and those that a restarted container gets if they differ from the
// Allocate response. They are stored in a file in the state directory, which survives a daemon restart and is shared by
// the device plugin and the DRA driver. The file is ignored after a reboot. An Injected is safe for concurrent use.
type Injected struct {
	dir, boot string
	disk      *privatedir.Turns

	mu    sync.Mutex
	nodes map[string][]string // names and numbers, by device id or by claimedKey
}

// claimedKey returns the key for a device that belongs to a claim.
func claimedKey(id string) string { return claimedPrefix + id }

const claimedPrefix = draname.Driver + "/"

// injectedContent is the content of injected.json.
type injectedContent struct {
	Version int                 `json:"version"`
	Boot    string              `json:"boot"`
	Nodes   map[string][]string `json:"nodes"`
}

// OpenInjected reads injected.json in dir, the state directory. If dir is "", the nodes are only kept in memory.
func OpenInjected(dir string) (*Injected, error) {
	i := &Injected{dir: dir, disk: privatedir.NewTurns(dir), nodes: map[string][]string{}}
	if dir == "" {
		return i, nil
	}
	var err error
	if i.boot, err = boot.ID(); err != nil {
		return nil, err
	}
	return i, i.disk.Within(context.Background(), openWithin, func(context.Context) error { return i.load() })
}

// refresh picks up what other daemons have written to the file. If the file can't be read, nothing changes.
func (i *Injected) refresh(ctx context.Context) {
	_ = i.disk.Within(ctx, diskWithin, func(context.Context) error { return i.load() })
}

// load reads injected.json. If the state directory doesn't exist, nothing changes.
func (i *Injected) load() error {
	if i.dir == "" {
		return nil
	}
	root, err := privatedir.OpenDir(i.dir, false)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer root.Close()
	nodes, err := i.read(root)
	if err == nil {
		i.set(nodes)
	}
	return err
}

func (i *Injected) read(root *os.Root) (map[string][]string, error) {
	text, err := privatedir.ReadFile(root, injectedFile, maxInjected)
	if errors.Is(err, fs.ErrNotExist) {
		return map[string][]string{}, nil
	}
	if err != nil {
		return nil, err
	}
	var c injectedContent
	if err := json.Unmarshal(text, &c); err != nil || c.Version != 1 {
		return nil, fmt.Errorf("%s: found version %d (%v), want 1: remove the file after all pods with devices of this node have ended",
			filepath.Join(i.dir, injectedFile), c.Version, err)
	}
	if c.Boot != i.boot || c.Nodes == nil {
		return map[string][]string{}, nil
	}
	return c.Nodes, nil
}

// Add remembers the nodes that containers may get along with each device from now on. nodes is keyed by device id. Add
// returns once the nodes are on disk.
func (i *Injected) Add(ctx context.Context, nodes map[string][]string) error {
	return i.change(ctx, func(all map[string][]string) {
		for id, names := range nodes {
			joined := slices.Concat(all[id], names)
			slices.Sort(joined)
			all[id] = slices.Compact(joined)
		}
	})
}

// SetClaimed replaces all nodes that are remembered for claims with the given nodes, which are keyed by device id. It
// returns once they are on disk.
func (i *Injected) SetClaimed(ctx context.Context, nodes map[string][]string) error {
	return i.change(ctx, func(all map[string][]string) {
		maps.DeleteFunc(all, func(key string, _ []string) bool { return strings.HasPrefix(key, claimedPrefix) })
		for id, names := range nodes {
			all[claimedKey(id)] = slices.Compact(slices.Sorted(slices.Values(names)))
		}
	})
}

// forget removes the keys for which keep returns false.
func (i *Injected) forget(ctx context.Context, keep func(key string) bool) error {
	return i.change(ctx, func(all map[string][]string) {
		maps.DeleteFunc(all, func(key string, _ []string) bool { return !keep(key) })
	})
}

// all returns the nodes, keyed by device id or by [claimedKey]. The caller must not modify the slices.
func (i *Injected) all() map[string][]string {
	i.mu.Lock()
	defer i.mu.Unlock()
	return maps.Clone(i.nodes)
}

func (i *Injected) set(nodes map[string][]string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.nodes = nodes
}

// change applies f to the nodes, both in memory and on disk. If the file system hangs during the write, the change may
// still take effect later; until then, every call returns an error.
func (i *Injected) change(ctx context.Context, f func(map[string][]string)) error {
	return i.disk.Within(ctx, diskWithin, func(ctx context.Context) error {
		_ = i.load() // another daemon may have changed the file; an error will come up again below
		before, after := i.all(), i.all()
		if f(after); maps.EqualFunc(after, before, slices.Equal) {
			return nil
		}
		if i.dir == "" {
			i.set(after)
			return nil
		}
		return locked(ctx, i.dir, injectedLock, func(root *os.Root) error {
			after, err := i.read(root) // another daemon may have changed the file
			if err != nil {
				return err
			}
			f(after)
			if ctx.Err() != nil { // the caller has given up
				return context.Cause(ctx)
			}
			if err := i.write(root, after); err != nil {
				return err
			}
			i.set(after)
			return nil
		})
	})
}

func (i *Injected) write(root *os.Root, nodes map[string][]string) error {
	if len(nodes) == 0 {
		return privatedir.RemoveFile(root, injectedFile)
	}
	text, err := json.Marshal(injectedContent{1, i.boot, nodes})
	if err != nil {
		return err
	}
	if len(text) > maxInjected {
		return fmt.Errorf("%s: found %d bytes to write, want at most %d", filepath.Join(i.dir, injectedFile), len(text), maxInjected)
	}
	_, err = privatedir.ReplaceFile(root, injectedFile, text)
	return err
}
