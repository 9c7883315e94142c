package programming

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"b-com.com/accelerator-device-plugin/internal/privatedir"
)

// Store is the path of a directory with bitstreams: INTERFACE/AFU.gbs and INTERFACE/HASH.aocx.
//
// A user who can write to the store decides which bitstreams root programs. So the store's directories and files must
// belong to the effective user, and no one else may have write access. Directories above the store can also belong to
// root. Owner and mode are checked on the open file descriptor, so that hard links are covered too. Symbolic links in
// the store are rejected.
type Store string

// DefaultStore is the store that a node uses unless its settings say otherwise.
const DefaultStore Store = "/srv/intel.com/fpga"

// Lookup opens a bitstream in the store, as [Open] does. id is an AFU's ID or an AOCX's hash. If the store doesn't have
// such a bitstream for the interface, the error wraps [fs.ErrNotExist].
func (s Store) Lookup(interfaceID, id string) (*Bitstream, error) {
	region, err := ParseID(interfaceID)
	if err != nil {
		return nil, fmt.Errorf("interface: %w", err)
	}
	id, err = ParseFileID(strings.ReplaceAll(id, "-", ""))
	if err != nil {
		return nil, fmt.Errorf("AFU: %w", err)
	}
	dir, err := s.openRegion(region)
	if err == nil {
		defer dir.Close()
		for _, format := range []string{GBS, AOCX} {
			var b *Bitstream
			b, err = openStored(dir, region, id+"."+format)
			if errors.Is(err, privatedir.ErrReplaced) { // by an Install with Force
				b, err = openStored(dir, region, id+"."+format)
			}
			if !errors.Is(err, fs.ErrNotExist) {
				return b, err
			}
		}
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("no bitstream for interface %s and AFU %s in the store (%w): want %s.gbs or .aocx, which accelerator-fpga install FILE writes",
			region, id, fs.ErrNotExist, filepath.Join(string(s), region, id))
	}
	return nil, err
}

// openRegion opens an interface's directory.
func (s Store) openRegion(interfaceID string) (*os.Root, error) {
	dir, err := privatedir.OpenDir(string(s), false)
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	return privatedir.OpenSub(dir, interfaceID)
}

// openStored opens a file in the store. The IDs in the file must match its path.
func openStored(region *os.Root, interfaceID, name string) (*Bitstream, error) {
	path := filepath.Join(region.Name(), name)
	format, err := formatOf(path)
	if err != nil {
		return nil, err
	}
	file, err := privatedir.OpenFile(region, name, os.O_RDONLY)
	if err != nil {
		return nil, err
	}
	b, err := parse(path, format, file)
	if err != nil {
		return nil, err
	}
	if b.InterfaceID != interfaceID || b.fileName() != name {
		b.Close()
		return nil, fmt.Errorf("%s: found %s for interface %s, want %s for interface %s: install the file again",
			path, b.fileName(), b.InterfaceID, name, interfaceID)
	}
	return b, nil
}

func (b *Bitstream) fileName() string {
	return b.ID() + "." + b.Format
}

// InstallOptions control [Store.Install].
type InstallOptions struct {
	Force  bool // replace an existing file
	DryRun bool // only check whether the file could be installed
}

// Install copies the bitstream's file into the store, creating missing directories, and returns the path of the copy.
// The copy appears atomically, so it is complete even after a crash. The copy is parsed and checked again, because the
// original may have changed since [Open]. If the file already exists and Force isn't set, the error wraps
// [fs.ErrExist].
func (s Store) Install(ctx context.Context, b *Bitstream, o InstallOptions) (string, error) {
	path := filepath.Join(string(s), b.InterfaceID, b.fileName())
	if err := b.Check(ctx); err != nil {
		return path, err
	}
	store, err := privatedir.OpenDir(string(s), !o.DryRun)
	if err != nil {
		if o.DryRun && errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
		return path, err
	}
	defer store.Close()
	if !o.DryRun {
		if err := store.Mkdir(b.InterfaceID, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
			return path, privatedir.PathError(filepath.Dir(path), err)
		}
	}
	region, err := privatedir.OpenSub(store, b.InterfaceID)
	if err != nil {
		if o.DryRun && errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
		return path, err
	}
	defer region.Close()
	if _, err := region.Lstat(b.fileName()); err == nil && !o.Force {
		return path, errExists(path)
	} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return path, privatedir.PathError(path, err)
	}
	if o.DryRun {
		return path, nil
	}
	removeLeft(region)
	if err := b.copyInto(ctx, region, path, o.Force); err != nil {
		return path, err
	}
	return path, errors.Join(privatedir.SyncDir(region), privatedir.SyncDir(store))
}

const temporaryPrefix = ".install-"

// removeLeft removes temporary files left behind by processes that were killed. It keeps files that were written to
// within the last day, because another Install may still be using them.
func removeLeft(region *os.Root) {
	files, _ := names(region)
	for _, name := range files {
		if info, err := region.Lstat(name); err == nil && strings.HasPrefix(name, temporaryPrefix) && time.Since(info.ModTime()) > 24*time.Hour {
			_ = region.Remove(name) // if this fails, the next Install tries again
		}
	}
}

// copyInto copies the bitstream's file to path, which is in region. The copy appears there atomically.
func (b *Bitstream) copyInto(ctx context.Context, region *os.Root, path string, force bool) error {
	temporary := temporaryPrefix + rand.Text() // unique, because another Install may be running
	err := b.copyTo(ctx, region, temporary)
	switch {
	case err != nil:
		return err
	case force:
		err = region.Rename(temporary, b.fileName())
	default:
		err = region.Link(temporary, b.fileName()) // unlike Rename, Link doesn't replace anything
	}
	if err != nil || !force {
		region.Remove(temporary)
	}
	switch {
	case errors.Is(err, fs.ErrExist) && !force:
		return errExists(path)
	case err != nil:
		return privatedir.PathError(path, err)
	}
	return nil
}

func errExists(path string) error {
	return fmt.Errorf("%s: %w, want no file there: --force replaces it", path, fs.ErrExist)
}

// copyTo copies the bitstream to a new file. If it fails, it removes the file.
func (b *Bitstream) copyTo(ctx context.Context, dir *os.Root, name string) (err error) {
	path := filepath.Join(dir.Name(), name)
	file, err := dir.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return privatedir.PathError(path, err)
	}
	defer func() {
		if err != nil {
			dir.Remove(name)
		}
	}()
	_, err = io.Copy(file, untilDone(ctx, b.Content()))
	if err == nil {
		err = file.Sync()
	}
	if err != nil {
		file.Close()
		return fmt.Errorf("copying %s to %s: %w", b.Path, path, err)
	}
	copied, err := parse(b.Path, b.Format, file) // b.Path, so that errors mention the path that the user gave
	if err != nil {
		return err
	}
	defer copied.Close()
	if err := copied.Check(ctx); err != nil {
		return err
	}
	if copied.Size != b.Size || copied.InterfaceID != b.InterfaceID || copied.fileName() != b.fileName() {
		return fmt.Errorf("%s: changed while it was copied", b.Path)
	}
	return nil
}

// scratch creates a temporary file in the store. The file is already unlinked and so doesn't have a name.
func (s Store) scratch() (*os.File, error) {
	dir, err := privatedir.OpenDir(string(s), true)
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	name := ".unpack-" + rand.Text()
	file, err := dir.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err == nil {
		err = dir.Remove(name)
	}
	if err != nil {
		return nil, privatedir.PathError(filepath.Join(string(s), name), err)
	}
	return file, nil
}

// Stored identifies a bitstream in a store.
type Stored struct {
	InterfaceID, ID string // ID is an AFU's ID or an AOCX's hash
}

// Names lists the store's bitstreams in sorted order, based only on the file names. It doesn't open any files: only
// Lookup can tell whether a bitstream is usable. If the store doesn't exist, Names returns nil.
func (s Store) Names() (found []Stored, err error) {
	var failed error
	err = s.eachRegion(func(store *os.Root, interfaceID string) {
		files, ferr := regionNames(store, interfaceID)
		failed = cmp.Or(failed, ferr)
		for _, name := range files {
			id := strings.TrimSuffix(name, filepath.Ext(name))
			if _, unknown := formatOf(name); unknown != nil {
				continue
			}
			if parsed, invalid := ParseFileID(id); invalid == nil && parsed == id {
				found = append(found, Stored{interfaceID, id})
			}
		}
	})
	slices.SortFunc(found, func(a, b Stored) int {
		return cmp.Or(cmp.Compare(a.InterfaceID, b.InterfaceID), cmp.Compare(a.ID, b.ID))
	})
	return slices.Compact(found), cmp.Or(err, failed)
}

// eachRegion calls f for each interface that has a directory in the store. It returns nil if the store doesn't exist.
func (s Store) eachRegion(f func(store *os.Root, interfaceID string)) error {
	store, err := privatedir.OpenDir(string(s), false)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer store.Close()
	regions, err := names(store)
	for _, interfaceID := range regions {
		if id, invalid := ParseID(interfaceID); invalid == nil && id == interfaceID {
			f(store, interfaceID)
		}
	}
	return err
}

// regionNames returns the names of an interface's files.
func regionNames(store *os.Root, interfaceID string) ([]string, error) {
	region, err := privatedir.OpenSub(store, interfaceID)
	if err != nil {
		return nil, err
	}
	defer region.Close()
	return names(region)
}

// Entry is a bitstream file in the store, or an interface directory that was rejected.
type Entry struct {
	Path      string
	Bitstream *Bitstream // closed; nil if Err is set
	Err       error      // why the file or directory was rejected, or nil
}

// List returns the store's bitstream files, which it recognizes by their extensions, and the interface directories that
// were rejected, sorted by path. If the store doesn't exist, it returns nil.
func (s Store) List(ctx context.Context) ([]Entry, error) {
	var entries []Entry
	err := s.eachRegion(func(store *os.Root, interfaceID string) {
		more, err := listRegion(ctx, store, interfaceID)
		if err != nil {
			more = append(more, Entry{Path: filepath.Join(store.Name(), interfaceID), Err: err})
		}
		entries = append(entries, more...)
	})
	slices.SortFunc(entries, func(a, b Entry) int { return cmp.Compare(a.Path, b.Path) })
	return entries, cmp.Or(err, ctx.Err())
}

func listRegion(ctx context.Context, store *os.Root, interfaceID string) ([]Entry, error) {
	region, err := privatedir.OpenSub(store, interfaceID)
	if err != nil {
		return nil, err
	}
	defer region.Close()
	files, err := names(region)
	var entries []Entry
	for _, name := range files {
		path := filepath.Join(region.Name(), name)
		if _, err := formatOf(path); err != nil || ctx.Err() != nil {
			continue
		}
		b, err := openStored(region, interfaceID, name)
		if err == nil {
			err = b.Check(ctx)
			b.Close()
		}
		if err != nil {
			b = nil
		}
		entries = append(entries, Entry{path, b, err})
	}
	return entries, err
}

func names(dir *os.Root) ([]string, error) {
	d, err := dir.Open(".")
	if err != nil {
		return nil, privatedir.PathError(dir.Name(), err)
	}
	defer d.Close()
	return d.Readdirnames(-1)
}
