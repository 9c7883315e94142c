package programming_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"b-com.com/accelerator-device-plugin/programming"
	bits "b-com.com/accelerator-device-plugin/test/bitstreamtest"
	"b-com.com/accelerator-device-plugin/test/compare"
	"b-com.com/accelerator-device-plugin/test/must"
)

const (
	gbsPath  = bits.Interface + "/" + bits.AFU + ".gbs"
	aocxPath = bits.Interface + "/" + bits.Hash + ".aocx"
)

func opencl() []byte {
	return bits.AOCX(bits.Hash, "pac_a10", bits.GBS(bits.Metadata(bits.Interface, bits.OpenCL), raw))
}

func filledStore(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(ownDir(t), "srv", "fpga")
	mkdir(t, filepath.Join(dir, bits.Interface))
	write(t, filepath.Join(dir, gbsPath), good())
	write(t, filepath.Join(dir, aocxPath), opencl())
	return dir
}

// mkdir creates directories with mode 0755, whatever the umask.
func mkdir(t *testing.T, dir string) {
	t.Helper()
	for _, err := range []error{os.MkdirAll(dir, 0o755), os.Chmod(dir, 0o755), os.Chmod(filepath.Dir(dir), 0o755)} {
		must.Succeed(t, err)
	}
}

func chmod(t *testing.T, path string, mode fs.FileMode) {
	t.Helper()
	must.Succeed(t, os.Chmod(path, mode))
}

func lookup(dir, interfaceID, id string) (*programming.Bitstream, error) {
	b, err := programming.Store(dir).Lookup(interfaceID, id)
	if err == nil {
		b.Close()
	}
	return b, err
}

func TestLookup(t *testing.T) {
	dir := filledStore(t)
	for _, test := range []struct{ name, interfaceID, id, want string }{
		{"by AFU", bits.Interface, bits.AFU, gbsPath},
		{"by hash", bits.Interface, bits.Hash, aocxPath},
		{"dashes and capitals", "CE489693-98F0-5F33-946D-560708BE108A", "D8424DC4-A4A3-C413-F89E-433683F9040B", gbsPath},
	} {
		b, err := lookup(dir, test.interfaceID, test.id)
		if err != nil || b.Path != filepath.Join(dir, test.want) {
			t.Errorf("%s: %v, %v, want %s", test.name, b, err, test.want)
		}
	}
	for _, test := range []struct {
		name, interfaceID, id string
		missing               bool
	}{
		{"other AFU", bits.Interface, bits.OtherAFU, true},
		{"other interface", strings.Repeat("0", 32), bits.AFU, true},
		{"the AFU that AOCX share", bits.Interface, bits.OpenCL, true},
		{"no ids", "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx", "yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy", false},
		{"AFU a path", bits.Interface, "../" + bits.Interface + "/" + bits.AFU, false},
		{"interface a path", "../fpga/" + bits.Interface, bits.AFU, false},
		{"nothing", "", "", false},
	} {
		if _, err := lookup(dir, test.interfaceID, test.id); err == nil || errors.Is(err, fs.ErrNotExist) != test.missing {
			t.Errorf("%s: %v, want missing %t", test.name, err, test.missing)
		}
	}
	compare.ErrorIs(t, "no store", fs.ErrNotExist, compare.ErrorOf(lookup(filepath.Join(dir, "none"), bits.Interface, bits.AFU)))
}

// The IDs in a file must match its path.
func TestLookupWrongContent(t *testing.T) {
	for _, test := range []struct {
		name, path string
		data       []byte
		want       string
	}{
		{"other interface", gbsPath, bits.GBS(bits.Metadata(strings.Repeat("1", 32), bits.AFU), raw), "for interface 11111111111111111111111111111111, want "},
		{"other AFU", gbsPath, bits.GBS(bits.Metadata(bits.Interface, bits.OtherAFU), raw), "found " + bits.OtherAFU + ".gbs"},
		{"other hash", aocxPath, bits.AOCX("aaaaaaaa", "", bits.GBS(bits.Metadata(bits.Interface, bits.OpenCL), raw)), "found aaaaaaaa.aocx"},
		{"GBS of one byte", gbsPath, []byte("X"), "header: found 1 bytes"},
		{"empty AOCX", aocxPath, nil, `want "\x7fELF"`},
	} {
		dir := filledStore(t)
		path := write(t, filepath.Join(dir, test.path), test.data)
		id := strings.TrimSuffix(filepath.Base(path), filepath.Ext(path))
		compare.Error(t, test.name, test.want, compare.ErrorOf(lookup(dir, bits.Interface, id)))
	}
}

// At every level, a store is rejected if another user could have put the file there. The privatedir package tests the
// checks themselves. Each case starts with a good store.
func TestStoreRefused(t *testing.T) {
	const stranger = 4242
	link := func(t *testing.T, target, path string) {
		t.Helper()
		must.Succeed(t, os.RemoveAll(path), os.Symlink(target, path))
	}
	give := func(t *testing.T, path string) {
		t.Helper()
		must.Succeed(t, os.Lchown(path, stranger, -1))
	}
	for _, test := range []struct {
		name  string
		root  bool // changes owners, so it needs root
		spoil func(t *testing.T, store, file string)
		want  string // substring of the error; "": the store is good
	}{
		{"as it is", false, func(*testing.T, string, string) {}, ""},
		{"file writable by others", false, func(t *testing.T, _, file string) { chmod(t, file, 0o646) }, "chmod go-w FILE"},
		{"directory of the interface writable", false, func(t *testing.T, _, file string) { chmod(t, filepath.Dir(file), 0o775) }, "chmod go-w STORE/" + bits.Interface},
		{"store writable", false, func(t *testing.T, store, _ string) { chmod(t, store, 0o777) }, "chmod go-w STORE"},
		{"parent writable", false, func(t *testing.T, store, _ string) { chmod(t, filepath.Dir(store), 0o777) }, "or with the sticky bit"},
		{"file of a stranger", true, func(t *testing.T, _, file string) { give(t, file) }, "FILE: found owner uid 4242, want 0: chown -h 0 FILE"},
		{"store of a stranger", true, func(t *testing.T, store, _ string) { give(t, store) }, "STORE: found owner uid 4242, want 0"},
		{"file a link to a good one", false, func(t *testing.T, store, file string) {
			other := write(t, filepath.Join(filepath.Dir(store), "other.gbs"), good())
			link(t, other, file)
		}, "FILE: found a file of mode Lrwxrwxrwx, want a regular file"},
		{"file a FIFO", false, func(t *testing.T, _, file string) {
			must.Succeed(t, os.Remove(file), syscall.Mkfifo(file, 0o644))
		}, "want a regular file"},
		{"file too large", false, func(t *testing.T, _, file string) {
			must.Succeed(t, os.Truncate(file, programming.MaxSize+1))
		}, "want at most 536870912"},
	} {
		t.Run(test.name, func(t *testing.T) {
			if test.root && os.Geteuid() != 0 {
				t.Skip("needs root")
			}
			store := filledStore(t)
			file := filepath.Join(store, gbsPath)
			chmod(t, file, 0o644)
			test.spoil(t, store, file)
			_, err := lookup(store, bits.Interface, bits.AFU)
			if test.want == "" {
				must.Succeed(t, err)
				return
			}
			want := strings.NewReplacer("FILE", file, "STORE", store).Replace(test.want)
			compare.Error(t, "error", want, err)
		})
	}
}

func install(t *testing.T, store string, file string, o programming.InstallOptions) (string, error) {
	t.Helper()
	b := must.Value(programming.Open(file))(t)
	defer b.Close()
	return programming.Store(store).Install(t.Context(), b, o)
}

// tree lists the files in a directory, recursively.
func tree(t *testing.T, dir string) []string {
	t.Helper()
	files := []string{}
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			name, _ := filepath.Rel(dir, path)
			files = append(files, name)
		}
		return err
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	return files
}

func TestInstall(t *testing.T) {
	source := ownDir(t)
	gbs := write(t, filepath.Join(source, "nlb.gbs"), good())
	aocx := write(t, filepath.Join(source, "vadd.aocx"), opencl())
	store := filepath.Join(ownDir(t), "srv", "intel.com", "fpga") // none of these directories exist

	path, err := install(t, store, gbs, programming.InstallOptions{DryRun: true})
	if err != nil || path != filepath.Join(store, gbsPath) {
		t.Fatalf("dry run: %s, %v", path, err)
	}
	if _, err := os.Stat(filepath.Dir(store)); !os.IsNotExist(err) {
		t.Fatalf("dry run has made a directory: %v", err)
	}
	for file, want := range map[string]string{gbs: gbsPath, aocx: aocxPath} {
		path, err := install(t, store, file, programming.InstallOptions{})
		if err != nil || path != filepath.Join(store, want) {
			t.Fatalf("%s: %s, %v", file, path, err)
		}
		info, err := os.Stat(path)
		if err != nil || info.Mode().Perm()&^0o644 != 0 {
			t.Errorf("%v, %v, want mode 0644 or less", info, err)
		}
	}
	compare.Values(t, "files", []string{aocxPath, gbsPath}, tree(t, store))
	must.Value(lookup(store, bits.Interface, bits.AFU))(t)

	longer := write(t, filepath.Join(source, "longer.gbs"), append(good(), "longer"...))
	for _, o := range []programming.InstallOptions{{}, {DryRun: true}} {
		if _, err := install(t, store, longer, o); !errors.Is(err, fs.ErrExist) || !strings.Contains(err.Error(), "--force") {
			t.Errorf("%+v onto another: %v, want that it exists", o, err)
		}
	}
	must.Value(install(t, store, longer, programming.InstallOptions{Force: true, DryRun: true}))(t)
	compare.Equal(t, "size after what should not change it", int64(len(raw)), must.Value(lookup(store, bits.Interface, bits.AFU))(t).Size)
	before := must.Value(programming.Store(store).Lookup(bits.Interface, bits.AFU))(t)
	defer before.Close()
	must.Value(install(t, store, longer, programming.InstallOptions{Force: true}))(t)
	compare.Equal(t, "size after --force", int64(len(raw)+len("longer")), must.Value(lookup(store, bits.Interface, bits.AFU))(t).Size)
	// A process that has the replaced file open can still read all of it.
	mapped, err := before.Map(t.Context(), programming.Store(store))
	if err != nil || string(mapped.Data) != string(raw) {
		t.Fatalf("%v, want the bitstream that was opened", err)
	}
	mapped.Close()
	compare.Values(t, "left behind", []string{aocxPath, gbsPath}, tree(t, store))
}

// Files left behind by a killed process are removed by the first installation after a day.
func TestInstallRemovesLeft(t *testing.T) {
	source, store := ownDir(t), filledStore(t)
	region := filepath.Join(store, bits.Interface)
	left, recent := write(t, filepath.Join(region, ".install-left"), raw), write(t, filepath.Join(region, ".install-recent"), raw)
	must.Succeed(t, os.Chtimes(left, time.Time{}, time.Now().Add(-25*time.Hour)))
	must.Value(install(t, store, write(t, filepath.Join(source, "nlb.gbs"), good()), programming.InstallOptions{Force: true}))(t)
	compare.Values(t, "files", []string{filepath.Join(bits.Interface, filepath.Base(recent)), aocxPath, gbsPath}, tree(t, store))
}

// A failed installation doesn't leave any files behind, and keeps the old one.
func TestInstallFails(t *testing.T) {
	for _, test := range []struct {
		name  string
		force bool
		spoil func(t *testing.T, store, source string) context.Context
		want  string
	}{
		{"called off", true, func(t *testing.T, _, _ string) context.Context {
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			return ctx
		}, "context canceled"},
		{"source changed", true, func(t *testing.T, _, source string) context.Context {
			write(t, source, bits.GBS(bits.Metadata(bits.Interface, bits.OtherAFU), raw))
			return t.Context()
		}, "changed while it was copied"},
		{"source damaged", true, func(t *testing.T, _, source string) context.Context {
			write(t, source, []byte("PK, twenty bytes and more"))
			return t.Context()
		}, `first bytes: found "PK, twenty bytes`},
		{"source shorter", true, func(t *testing.T, _, source string) context.Context {
			write(t, source, good()[:len(good())-1])
			return t.Context()
		}, "changed while it was copied"},
		{"source cut off", true, func(t *testing.T, _, source string) context.Context {
			write(t, source, nil)
			return t.Context()
		}, "header: found 0 bytes"},
		{"place taken by a directory", true, func(t *testing.T, store, _ string) context.Context {
			path := filepath.Join(store, gbsPath)
			must.Succeed(t, os.Remove(path), os.Mkdir(path, 0o755))
			return t.Context()
		}, gbsPath + ": "},
		{"store writable by others", false, func(t *testing.T, store, _ string) context.Context {
			chmod(t, store, 0o757)
			return t.Context()
		}, "chmod go-w"},
		{"place a link", false, func(t *testing.T, store, _ string) context.Context {
			path := filepath.Join(store, gbsPath)
			must.Succeed(t, os.Remove(path), os.Symlink("/dev/null", path))
			return t.Context()
		}, "--force replaces it"},
	} {
		t.Run(test.name, func(t *testing.T) {
			store := filledStore(t)
			source := write(t, filepath.Join(t.TempDir(), "nlb.gbs"), good())
			b := must.Value(programming.Open(source))(t)
			defer b.Close()
			ctx := test.spoil(t, store, source)
			before := tree(t, store)
			compare.Error(t, "Install", test.want, compare.ErrorOf(programming.Store(store).Install(ctx, b, programming.InstallOptions{Force: test.force})))
			compare.Values(t, "changed", before, tree(t, store))
		})
	}
}

// A link at the file's path is replaced, not followed.
func TestInstallOverLink(t *testing.T) {
	store := filledStore(t)
	victim := write(t, filepath.Join(ownDir(t), "victim"), []byte("untouched"))
	path := filepath.Join(store, gbsPath)
	must.Succeed(t, os.Remove(path), os.Symlink(victim, path))
	source := write(t, filepath.Join(t.TempDir(), "nlb.gbs"), good())
	must.Value(install(t, store, source, programming.InstallOptions{Force: true}))(t)
	if text, err := os.ReadFile(victim); string(text) != "untouched" {
		t.Errorf("%q, %v", text, err)
	}
	must.Value(lookup(store, bits.Interface, bits.AFU))(t)
}

// If several processes install the same bitstream at the same time without --force, only one of them succeeds.
func TestInstallAtOnce(t *testing.T) {
	store := filepath.Join(ownDir(t), "fpga")
	source := write(t, filepath.Join(t.TempDir(), "nlb.gbs"), good())
	var done, failed atomic.Int32
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			b, err := programming.Open(source)
			if err != nil {
				t.Error(err)
				return
			}
			defer b.Close()
			switch _, err := programming.Store(store).Install(t.Context(), b, programming.InstallOptions{}); {
			case err == nil:
				done.Add(1)
			case errors.Is(err, fs.ErrExist):
				failed.Add(1)
			default:
				t.Error(err)
			}
		})
	}
	all.Wait()
	if done.Load() != 1 || failed.Load() != 7 {
		t.Errorf("%d installed, %d found it there, want 1 and 7", done.Load(), failed.Load())
	}
	compare.Values(t, "files", []string{gbsPath}, tree(t, store))
}

func TestList(t *testing.T) {
	store := filledStore(t)
	other := strings.Repeat("a", 32)
	writable := strings.Repeat("b", 32)
	for _, dir := range []string{other, writable, "lost+found"} {
		mkdir(t, filepath.Join(store, dir))
	}
	chmod(t, filepath.Join(store, writable), 0o777)
	write(t, filepath.Join(store, other, bits.AFU+".gbs"), []byte("X"))
	write(t, filepath.Join(store, other, "nlb.gbs"), bits.GBS(bits.Metadata(other, bits.AFU), raw))
	write(t, filepath.Join(store, other, "README"), nil)
	write(t, filepath.Join(store, "stray.gbs"), good())

	entries := must.Value(programming.Store(store).List(t.Context()))(t)
	var got []string
	for _, e := range entries {
		line, _ := filepath.Rel(store, e.Path)
		if e.Err != nil {
			_, text, _ := strings.Cut(e.Err.Error(), ": ")
			line += ": " + text
		} else {
			line += " " + e.Bitstream.Format
		}
		got = append(got, line)
	}
	want := []string{
		other + "/" + bits.AFU + ".gbs: header: found 1 bytes, want 20",
		other + "/nlb.gbs: found " + bits.AFU + ".gbs for interface " + other + ", want nlb.gbs for interface " + other + ": install the file again",
		writable + ": found mode 0777, want it not writable by group and others: chmod go-w " + filepath.Join(store, writable),
		aocxPath + " aocx",
		gbsPath + " gbs",
	}
	compare.Values(t, "bitstreams", want, got)
	if entries, err := programming.Store(filepath.Join(store, "none")).List(t.Context()); err != nil || entries != nil {
		t.Errorf("no store: %v, %v", entries, err)
	}
	chmod(t, store, 0o777)
	compare.Error(t, "List of a store that others may write to", "", compare.ErrorOf(programming.Store(store).List(t.Context())))
}

// Names returns what the store contains, judging by the file names, and nothing that Lookup couldn't find.
func TestNames(t *testing.T) {
	store := programming.Store(t.TempDir() + "/store")
	found, err := store.Names()
	compare.Equal(t, "missing store", 0, len(found))
	must.Succeed(t, err)
	const region, other, afu, hash = bits.Interface, "00000000000000000000000000000001", bits.AFU, "0123abcd"
	for _, name := range []string{
		region + "/" + afu + ".gbs", region + "/" + hash + ".aocx", other + "/" + afu + ".gbs", other + "/" + afu + ".aocx",
		region + "/" + strings.ToUpper(hash) + ".gbs", region + "/.install-x", region + "/README", region + "/" + hash + ".gbs.old", "x/" + afu + ".gbs", afu + ".gbs",
	} {
		path := filepath.Join(string(store), name)
		must.Succeed(t, errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, nil, 0o644)))
	}
	found, err = store.Names()
	must.Succeed(t, err)
	compare.Values(t, "names", []programming.Stored{{InterfaceID: other, ID: afu}, {InterfaceID: region, ID: hash}, {InterfaceID: region, ID: afu}}, found)
	must.Succeed(t, os.Chmod(filepath.Join(string(store), other), 0o777))
	if found, err = store.Names(); err == nil || !strings.Contains(err.Error(), other) || len(found) != 2 {
		t.Errorf("directory that others can write: found %v, %v, want the others, and an error with the directory", found, err)
	}
}
