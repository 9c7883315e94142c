package holders

import (
	"bytes"
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

	"b-com.com/accelerator-device-plugin/internal/boot"
	"b-com.com/accelerator-device-plugin/internal/privatedir"
	"b-com.com/accelerator-device-plugin/kubelet/checkpoint"
	"b-com.com/accelerator-device-plugin/kubelet/podcgroup"
)

const (
	pastFile = "allocated.json"
	pastLock = "allocated.lock"
	maxPast  = 4 << 20 // maximum file size in bytes, same as for the checkpoint
)

// past is the content of allocated.json in the state directory: the checkpoint's entries for our devices, including
// those that the kubelet has removed even though their pods, which were force-deleted, still have processes. A daemon
// that starts later, even if it only takes over during an upgrade, finds the removed entries here. The device plugin
// and the DRA driver share the file, which is ignored after a reboot.
type past struct {
	Version int             `json:"version"`
	Boot    string          `json:"boot"`
	Entries json.RawMessage `json:"entries"` // in the checkpoint's format
}

// readPast returns the entries in allocated.json, and the file's content.
func readPast(dir string) (entries []checkpoint.Entry, text []byte, err error) {
	root, err := privatedir.OpenDir(dir, false)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, err
	}
	defer root.Close()
	text, err = privatedir.ReadFile(root, pastFile, maxPast)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, err
	}
	var p past
	if err := json.Unmarshal(text, &p); err != nil || p.Version != 1 {
		return nil, text, fmt.Errorf("%s: found version %d (%v), want 1", filepath.Join(dir, pastFile), p.Version, err)
	}
	if id, err := boot.ID(); err != nil || id != p.Boot {
		return nil, text, err
	}
	entries, err = checkpoint.Decode(p.Entries)
	return entries, text, err
}

// maxUnstored limits the number of entries that are kept in memory until they can be stored, in case the file system
// hangs or is full.
const maxUnstored = 1000

// storeAll stores the entries each time there is a new version of the checkpoint, and once more when ctx is done. It
// has its own goroutine, because reading the next version must not wait for the disk. If storing fails, storeAll tries
// again when there is another version. It doesn't log the error, because the cordons and the ledger, which are in the
// same directory, log theirs.
func (s *Source) storeAll(ctx context.Context, changed <-chan struct{}) {
	if s.cfg.StateDir == "" {
		return
	}
	for done := false; !done; {
		select {
		case <-ctx.Done():
			done = true
		case <-changed:
		}
		if err := s.disk.Within(context.WithoutCancel(ctx), diskWithin, s.store); err != nil {
			s.mu.Lock()
			if len(s.unstored) > maxUnstored {
				clear(s.unstored)
			}
			s.mu.Unlock()
		}
	}
}

// store updates allocated.json: it adds the checkpoint's entries, and removes those that are no longer in the
// checkpoint and whose pods have no processes. It also picks up what other daemons have stored.
func (s *Source) store(ctx context.Context) error {
	return locked(ctx, s.cfg.StateDir, pastLock, func(root *os.Root) error { return s.update(ctx, root) })
}

// locked opens the directory dir and calls f with it while holding the lock file with the given name.
func locked(ctx context.Context, dir, lock string, f func(root *os.Root) error) error {
	root, err := privatedir.OpenDir(dir, true)
	if err != nil {
		return err
	}
	defer root.Close()
	locking, cancel := context.WithTimeout(ctx, lockWithin)
	defer cancel()
	held, err := privatedir.AcquireLock(locking, root, lock)
	if err != nil {
		return err
	}
	defer held.Release()
	return f(root)
}

// update updates allocated.json for [Source.store], which holds the lock.
func (s *Source) update(ctx context.Context, root *os.Root) error {
	stored, text, _ := readPast(s.cfg.StateDir) // a file that can't be read is replaced

	s.mu.Lock()
	record, err := s.readLocked()
	fresh := s.unstored
	s.unstored = map[string]checkpoint.Entry{}
	s.mu.Unlock()

	var removed []checkpoint.Entry
	if err == nil {
		known := named(stored)
		maps.Copy(known, fresh)
		removed = s.alive(removedFrom(record, known))
		err = writePast(ctx, root, slices.Concat(record.Entries, removed), text)
	}

	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		maps.Copy(fresh, s.unstored)
		s.unstored = fresh
		return err
	}
	maps.Copy(s.seen, named(removed))
	return nil
}

// writePast writes the entries for our devices, unless the file already contains them.
func writePast(ctx context.Context, root *os.Root, entries []checkpoint.Entry, before []byte) error {
	entries = slices.DeleteFunc(entries, func(e checkpoint.Entry) bool { return !isOurs(e) })
	if ctx.Err() != nil { // the caller has given up
		return context.Cause(ctx)
	}
	if len(entries) == 0 {
		if before == nil {
			return nil
		}
		return privatedir.RemoveFile(root, pastFile)
	}
	slices.SortFunc(entries, func(a, b checkpoint.Entry) int { return strings.Compare(nameOf(a), nameOf(b)) })
	p := past{Version: 1}
	var err error
	if p.Boot, err = boot.ID(); err != nil {
		return err
	}
	if p.Entries, err = checkpoint.Encode(entries); err != nil {
		return err
	}
	text, err := json.Marshal(p)
	if err != nil || bytes.Equal(text, before) {
		return err
	}
	if len(text) > maxPast {
		return fmt.Errorf("%s: found %d bytes to write, want at most %d", filepath.Join(root.Name(), pastFile), len(text), maxPast)
	}
	_, err = privatedir.ReplaceFile(root, pastFile, text)
	return err
}

// isOurs reports whether one of this project's daemons allocated the entry's devices.
func isOurs(e checkpoint.Entry) bool { return slices.ContainsFunc(e.IDs, e.Ours) }

func named(entries []checkpoint.Entry) map[string]checkpoint.Entry {
	all := make(map[string]checkpoint.Entry, len(entries))
	for _, e := range entries {
		all[nameOf(e)] = e
	}
	return all
}

// removedFrom returns the known entries that the kubelet has removed from the record. An entry whose devices have
// changed counts as replaced, not as removed, because the kubelet keeps only one entry for each container and resource.
func removedFrom(record checkpoint.Record, known map[string]checkpoint.Entry) map[string]checkpoint.Entry {
	type key struct{ holder, resource string }
	recorded := make(map[key]bool, len(record.Entries))
	for _, e := range record.Entries {
		recorded[key{e.Holder(), e.Resource}] = true
	}
	removed := map[string]checkpoint.Entry{}
	for name, e := range known {
		if !recorded[key{e.Holder(), e.Resource}] {
			removed[name] = e
		}
	}
	return removed
}

// alive returns the entries whose pods have processes.
func (s *Source) alive(entries map[string]checkpoint.Entry) (alive []checkpoint.Entry) {
	var uids []string
	for _, e := range entries {
		uids = append(uids, e.PodUID)
	}
	found := podcgroup.Alive(s.cfg.CgroupRoot, uids)
	for _, e := range entries {
		if found[e.PodUID] {
			alive = append(alive, e)
		}
	}
	return alive
}
