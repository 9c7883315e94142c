package keep

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/opencontainers/go-digest"

	"b-com.com/accelerator-device-plugin/internal/logevent"
	"b-com.com/accelerator-device-plugin/internal/privatedir"
	"b-com.com/accelerator-device-plugin/registry/artifact"
	"b-com.com/accelerator-device-plugin/registry/transfer"
)

// attempt pulls a reference's bitstream unless the store already has it.
func (k *Keeper) attempt(ctx context.Context, e *entry) (result string, err error) {
	if err := k.open(); err != nil {
		return Failed, err
	}
	k.mu.Lock()
	have := k.record.References[e.state.Reference]
	k.mu.Unlock()
	intact := have.Path != "" && k.intact(have)
	if _, err := e.ref.Digest(); err == nil && intact { // a digest always refers to the same content
		return Unchanged, nil
	}
	said := time.Now()
	log := k.cfg.Log.With(logevent.Reference(e.state.Reference))
	say := func(text func() string) { // don't fill the log if a registry cuts every connection
		if time.Since(said) > 10*time.Second {
			said = time.Now()
			log.Info("pull in progress", logevent.BitstreamProgress, logevent.Reason(text()))
		}
	}
	client, keys, err := k.cfg.Open(func(text string) { say(func() string { return text }) }, func(done, total int64) {
		say(func() string { return fmt.Sprintf("downloaded %d of %d MiB", done>>20, total>>20) })
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
	sum, err := k.replaceable(e, path, d)
	if err != nil {
		return Failed, err
	}
	if sum != d.File {
		free, err := k.reserveSpace(d.Size)
		if err != nil {
			return Failed, err
		}
		defer free()
	}
	k.mu.Lock()
	e.part = transfer.PartName(d)
	k.mu.Unlock()
	leave := func() {} // lets other goroutines install a file at path
	pinned := e.ref
	pinned.Reference = manifest.String()
	p, err := client.Pull(ctx, pinned, k.cfg.Store, transfer.Options{
		Force: sum != "" && sum != d.File, Keys: keys, KeepParts: true,
		Ready: func() error {
			release, err := k.reserve(ctx, path)
			if err != nil {
				return err
			}
			leave = release
			return k.announce(e, path, d)
		},
	})
	defer leave()
	if err != nil {
		return Failed, transfer.Explain(e.ref, err)
	}
	switch err := k.installed(e, path, manifest, d, p.Installed); {
	case err != nil:
		return Failed, err
	case p.Installed:
		return Installed, nil
	}
	return Unchanged, nil
}

// replaceable returns the digest of the file at path, or "" if there is no file. It returns an error if the file is
// neither the desired one nor one that keep installed, or if another reference on the list needs different content at
// that path.
func (k *Keeper) replaceable(e *entry, path string, d artifact.Description) (sum digest.Digest, err error) {
	sum, _, err = k.sum(d.InterfaceID, d.ID())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	for reference, other := range k.record.References {
		if reference != e.state.Reference && k.entries[reference] != nil && other.Path == path && other.File != d.File {
			return "", fmt.Errorf("%s: names the same bitstream %s as %s, with another content: keep one of them in the list", e.state.Reference, path, reference)
		}
	}
	own, ours := k.record.Files[path]
	switch {
	case sum == d.File:
	case sum != "" && !own.has(sum):
		return "", fmt.Errorf("%s: found a file that keep has not installed, want none or the file with digest %s: remove it, or %s from the list",
			filepath.Join(string(k.cfg.Store), path), d.File, e.state.Reference)
	case !ours && len(k.record.Files) >= mostFiles:
		return "", fmt.Errorf("%s: found %d files that were pulled for the list, want fewer: turn on collecting, or remove some", k.cfg.Store, mostFiles)
	}
	return sum, nil
}

// announce records that the file at path is about to be replaced, if that is still allowed. It must not be called
// before the new content has been downloaded, because otherwise a registry could announce content that it never sends,
// and keep would believe that it had installed that content itself.
func (k *Keeper) announce(e *entry, path string, d artifact.Description) error {
	if _, err := k.replaceable(e, path, d); err != nil { // another process may have installed a file meanwhile
		return err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	own, ours := k.record.Files[path]
	if !ours {
		own = file{InterfaceID: d.InterfaceID, ID: d.ID(), AFUID: d.AFUID, Size: d.Size}
	}
	own.Next = d.File
	k.record.Files[path] = own
	return k.save()
}

// reserveSpace reserves space for a bitstream on the file system. It returns an error if that would leave less than
// MinFree. It allows for other running pulls, and for twice the bitstream's size, which the installation needs. MinFree
// is there so that the kubelet doesn't evict pods, and so that a tag that is moved again and again can't fill the
// node's disk.
func (k *Keeper) reserveSpace(size int64) (free func(), err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	left, total, err := k.cfg.Space(string(k.cfg.Store))
	if err != nil {
		return nil, err
	}
	if want := 2*size + k.pulling + total/100*k.cfg.MinFree; left < want {
		return nil, fmt.Errorf("%s: found %d MiB of free space, want %d MiB: %d %% of the file system, and twice each bitstream that is pulled", k.cfg.Store, left>>20, want>>20, k.cfg.MinFree)
	}
	k.pulling += 2 * size
	return func() {
		k.mu.Lock()
		defer k.mu.Unlock()
		k.pulling -= 2 * size
	}, nil
}

// Space returns the free and total size, in bytes, of the file system that dir is on.
func Space(dir string) (free, total int64, err error) {
	var at syscall.Statfs_t
	if err := syscall.Statfs(dir, &at); err != nil {
		return 0, 0, &fs.PathError{Op: "statfs", Path: dir, Err: err}
	}
	return int64(at.Bavail) * int64(at.Bsize), int64(at.Blocks) * int64(at.Bsize), nil
}

// installed records that the file at path belongs to the reference.
func (k *Keeper) installed(e *entry, path string, manifest digest.Digest, d artifact.Description, byUs bool) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if own, ours := k.record.Files[path]; byUs || ours && own.has(d.File) {
		k.record.Files[path] = file{InterfaceID: d.InterfaceID, ID: d.ID(), AFUID: d.AFUID, Digest: d.File, Size: d.Size}
	} else {
		delete(k.record.Files, path) // another process has installed this content
	}
	if k.entries[e.state.Reference] == e { // it is still on the list
		k.record.References[e.state.Reference] = named{manifest, path, d.File}
	}
	return k.save()
}

// open takes the store's lock and reads the store's record, unless it has already done so.
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

// update records which files the listed references have stopped naming. The caller must hold k.mu.
func (k *Keeper) update() {
	k.record.update(func(reference string) bool { return k.entries[reference] != nil }, time.Now())
}

// save writes the record if it has changed. The caller must hold k.mu.
func (k *Keeper) save() error {
	k.update()
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

// reserve waits until no one else is installing or removing a file at path, and then keeps others from doing so until
// release is called. Callers don't download anything in the meantime, so the wait is short.
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

// intact reports whether the store still contains n's file with the right content. It rereads the file only if the file
// has changed since it was last read.
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

// same reports whether a and b describe the same, unchanged file. It compares ctimes, because any change to a file's
// content, owner or mode changes its ctime.
func same(a, b fs.FileInfo) bool {
	at, ok := a.Sys().(*syscall.Stat_t)
	bt, ok2 := b.Sys().(*syscall.Stat_t)
	return ok && ok2 && os.SameFile(a, b) && a.Size() == b.Size() && at.Ctim == bt.Ctim
}

// sum returns the digest of a bitstream in the store, and the file's metadata from before it was read.
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
