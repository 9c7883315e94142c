package keep

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"b-com.com/accelerator-device-plugin/internal/backoff"
	"b-com.com/accelerator-device-plugin/internal/logevent"
	"b-com.com/accelerator-device-plugin/internal/privatedir"
	"b-com.com/accelerator-device-plugin/registry/transfer"
)

// Collect determines which files are removed once no reference refers to them any more. The zero value keeps all files.
type Collect struct {
	// Age is how long files are kept after they were last needed. It must be at least MinAge. 0 keeps files no matter
	// how old they are.
	Age time.Duration
	// MaxSize limits the total size, in bytes, of the files that keep has installed. Above this limit, the files that
	// haven't been needed for the longest time are removed, provided that they haven't been needed for at least MinAge.
	// 0 means no limit.
	MaxSize int64
	// Loaded returns the IDs of the AFUs that are loaded on the node's cards. If it fails, nothing is removed.
	Loaded func() ([]string, error)
}

// MinAge is the minimum time that a file is kept after the last reference to it is gone, so that a pod that was
// scheduled because of the file can still start. It can't be shorter than a day, because with the relatime mount
// option, a file's access time can be up to a day old.
const MinAge = 24 * time.Hour

// collectAll calls collect every hour until ctx is done. It waits an hour before it starts, because the clock may be
// wrong after a boot.
func (k *Keeper) collectAll(ctx context.Context) {
	for backoff.Wait(ctx, time.Hour) {
		if err := k.collect(ctx); err != nil && ctx.Err() == nil {
			k.cfg.Log.Warn("files not removed", logevent.BitstreamRetained, logevent.Err(err))
		}
	}
}

// collect removes partial downloads that won't be resumed, and the files that [Collect] selects. It continues after an
// error, because if the disk is full, removing files helps.
func (k *Keeper) collect(ctx context.Context) error {
	if err := k.open(); err != nil {
		return err
	}
	k.mu.Lock()
	var parts []string
	for _, e := range k.entries {
		parts = append(parts, e.part)
	}
	for path, f := range k.record.Files {
		if _, err := os.Lstat(filepath.Join(string(k.cfg.Store), path)); errors.Is(err, fs.ErrNotExist) && !f.Unnamed.IsZero() && k.busy[path] == nil {
			delete(k.record.Files, path) // it was removed by hand or never installed
		}
	}
	errs := errors.Join(transfer.RemoveParts(k.cfg.Store, parts...), k.save()) // save also records when files became unnamed
	files := maps.Clone(k.record.Files)
	k.mu.Unlock()
	rule := k.cfg.Collect
	if rule.Age == 0 && rule.MaxSize == 0 {
		return errs
	}
	total := int64(0)
	for _, f := range files {
		total += f.Size
	}
	maps.DeleteFunc(files, func(_ string, f file) bool { return f.Unnamed.IsZero() })
	for _, path := range slices.SortedFunc(maps.Keys(files), func(a, b string) int {
		return cmp.Or(files[a].Unnamed.Compare(files[b].Unnamed), cmp.Compare(a, b))
	}) {
		idle, err := k.idle(path, files[path])
		reason := ""
		switch {
		case err != nil:
			errs = errors.Join(errs, err)
		case rule.Age > 0 && idle >= rule.Age:
			reason = "age"
		case rule.MaxSize > 0 && total > rule.MaxSize && idle >= MinAge:
			reason = "size"
		}
		if reason == "" {
			continue
		}
		loaded, err := rule.Loaded() // ask again for each file, because removing many files takes a while
		if err != nil {
			return errors.Join(errs, err)
		}
		if slices.Contains(loaded, files[path].AFUID) {
			continue
		}
		removed, err := k.remove(ctx, path, files[path], reason)
		errs = errors.Join(errs, err)
		if removed {
			total -= files[path].Size
		}
	}
	return errs
}

// idle returns how long the file has neither been named by a reference nor read by a program.
func (k *Keeper) idle(path string, f file) (time.Duration, error) {
	idle := time.Since(f.Unnamed)
	info, err := os.Lstat(filepath.Join(string(k.cfg.Store), path))
	if errors.Is(err, fs.ErrNotExist) {
		return idle, nil
	} else if err != nil {
		return 0, err
	}
	if s, ok := info.Sys().(*syscall.Stat_t); ok {
		idle = min(idle, time.Since(time.Unix(s.Atim.Unix())))
	}
	return idle, nil
}

// remove removes a file that keep installed, unless a reference names it again or its content has changed. If it
// returns both true and an error, the file is gone but still in the record.
func (k *Keeper) remove(ctx context.Context, path string, f file, reason string) (removed bool, err error) {
	release, err := k.reserve(ctx, path)
	if err != nil {
		return false, err
	}
	defer release()
	sum, _, err := k.sum(f.InterfaceID, f.ID)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.update()
	if now, ours := k.record.Files[path]; !ours || now.Unnamed.IsZero() {
		return false, nil
	}
	if f.has(sum) {
		if err := k.unlink(path); err != nil {
			return false, err
		}
		k.cfg.Log.Info("bitstream removed", logevent.BitstreamRemoved, logevent.Path(path), logevent.Reason(reason))
	}
	delete(k.record.Files, path)
	delete(k.seen, path)
	return true, k.save()
}

// unlink removes a file from the store. Programs that have the file open can go on reading it.
func (k *Keeper) unlink(path string) error {
	store, err := privatedir.OpenDir(string(k.cfg.Store), false)
	if err != nil {
		return err
	}
	defer store.Close()
	region, err := privatedir.OpenSub(store, filepath.Dir(path))
	if err != nil {
		return err
	}
	defer region.Close()
	return privatedir.RemoveFile(region, filepath.Base(path))
}
