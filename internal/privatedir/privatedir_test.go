package privatedir_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"b-com.com/accelerator-device-plugin/internal/privatedir"
	"b-com.com/accelerator-device-plugin/test/compare"
	"b-com.com/accelerator-device-plugin/test/must"
)

// ownDir returns an empty directory that OpenDir accepts: root or this user owns those above it.
func ownDir(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	must.Succeed(t, os.Chmod(dir, 0o700))
	return dir
}

func TestOpenDir(t *testing.T) {
	for _, tc := range []struct {
		name   string
		make   func(dir string) (path string, err error)
		create bool
		want   string // in the error; "": there is none
	}{
		{"own directory", func(dir string) (string, error) { return dir, nil }, false, ""},
		{"missing", func(dir string) (string, error) { return dir + "/a/b", nil }, false, "/a: no such file or directory"},
		{"missing, made", func(dir string) (string, error) { return dir + "/a/b", nil }, true, ""},
		{"writable by others", func(dir string) (string, error) { return dir, os.Chmod(dir, 0o777) }, false, "want it not writable"},
		{"sticky, as the last one", func(dir string) (string, error) {
			return dir, os.Chmod(dir, 0o777|os.ModeSticky)
		}, false, "want it not writable by group and others: chmod go-w"},
		{"below a directory writable by others", func(dir string) (string, error) {
			return dir + "/a", errors.Join(os.Mkdir(dir+"/a", 0o700), os.Chmod(dir, 0o777))
		}, false, "or with the sticky bit"},
		{"below a sticky directory", func(dir string) (string, error) {
			return dir + "/a", errors.Join(os.Mkdir(dir+"/a", 0o700), os.Chmod(dir, 0o777|os.ModeSticky))
		}, false, ""},
		{"own link", func(dir string) (string, error) {
			return dir + "/l", errors.Join(os.Mkdir(dir+"/a", 0o700), os.Symlink("../"+filepath.Base(dir)+"/a", dir+"/l"))
		}, false, ""},
		{"link to itself", func(dir string) (string, error) { return dir + "/l", os.Symlink("l", dir+"/l") }, false, "too many levels"},
		{"file", func(dir string) (string, error) {
			return dir + "/f", os.WriteFile(dir+"/f", nil, 0o600)
		}, true, "want a directory"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			path, err := tc.make(ownDir(t))
			must.Succeed(t, err)
			dir, err := privatedir.OpenDir(path, tc.create)
			if err == nil {
				defer dir.Close()
			}
			compare.Outcome(t, "error", tc.want, err)
		})
	}
}

// A directory, a file and a link of another user are refused.
func TestOtherUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can give files away")
	}
	path := ownDir(t)
	must.Succeed(t, os.Mkdir(path+"/dir", 0o700), os.WriteFile(path+"/file", nil, 0o600), os.Symlink("own", path+"/link"), os.Mkdir(path+"/own", 0o700))
	dir := must.Value(privatedir.OpenDir(path, false))(t)
	defer dir.Close()
	for _, name := range []string{"dir", "file", "link"} {
		must.Succeed(t, os.Lchown(filepath.Join(path, name), 65534, 65534))
	}
	_, errDir := privatedir.OpenSub(dir, "dir")
	_, errFile := privatedir.OpenFile(dir, "file", os.O_RDONLY)
	_, errLink := privatedir.OpenDir(path+"/link", false)
	for _, err := range []error{errDir, errFile, errLink} {
		compare.Error(t, "error", "found owner uid 65534, want 0", err)
	}
}

func TestOpenFile(t *testing.T) {
	path := ownDir(t)
	dir := must.Value(privatedir.OpenDir(path, false))(t)
	defer dir.Close()
	must.Succeed(t, os.WriteFile(path+"/file", []byte("x"), 0o600), os.Symlink("file", path+"/link"), os.Mkdir(path+"/dir", 0o700),
		syscall.Mkfifo(path+"/fifo", 0o600), os.WriteFile(path+"/shared", nil, 0o600), os.Chmod(path+"/shared", 0o666))
	for name, want := range map[string]string{
		"file": "", "link": "want a regular file", "dir": "want a regular file", "fifo": "want a regular file",
		"shared": "want it not writable", "missing": "no such file", "../file": "path escapes",
	} {
		file, err := privatedir.OpenFile(dir, name, os.O_RDONLY)
		if err == nil {
			file.Close()
		}
		compare.Outcome(t, name, want, err)
	}
}

// A second lock is acquired only after the first is released. The wait ends with the context.
func TestLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := must.Value(privatedir.OpenDir(ownDir(t), false))(t)
		defer dir.Close()
		first := must.Value(privatedir.AcquireLock(t.Context(), dir, "lock"))(t)
		soon, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		compare.ErrorIs(t, "AcquireLock", context.DeadlineExceeded, compare.ErrorOf(privatedir.AcquireLock(soon, dir, "lock")))
		got := make(chan error)
		go func() {
			second, err := privatedir.AcquireLock(t.Context(), dir, "lock")
			if err == nil {
				err = second.Release()
			}
			got <- err
		}()
		time.Sleep(time.Second) // of the bubble
		select {
		case err := <-got:
			t.Errorf("locked twice: %v", err)
		default:
		}
		must.Succeed(t, first.Release())
		must.Succeed(t, <-got)
	})
}

// Holders of a shared lock see each other's marks, and whether they are alone. All ends with the lock.
func TestMarks(t *testing.T) {
	dir := must.Value(privatedir.OpenDir(ownDir(t), false))(t)
	defer dir.Close()
	share := func(marks ...privatedir.Mark) *privatedir.Lock {
		t.Helper()
		l := must.Value(privatedir.TryLock(dir, "lock", privatedir.Shared))(t)
		for _, m := range marks {
			must.Succeed(t, l.Mark(m))
		}
		return l
	}
	const least, most = privatedir.Mark(1), privatedir.Mark(1 << 62)
	me := share(5)
	want := func(what string, m privatedir.Mark, same, other, sole bool) {
		t.Helper()
		gotSame, gotOther, err := me.Marked(m)
		gotSole := must.Value(me.Sole())(t)
		must.Succeed(t, err)
		if gotSame != same || gotOther != other || gotSole != sole {
			t.Errorf("%s: found mark %v, other mark %v, sole %v, want %v, %v, %v", what, gotSame, gotOther, gotSole, same, other, sole)
		}
	}
	want("alone, own mark", 5, false, false, true)
	want("alone, another mark", 6, false, false, true)
	silent := share()
	want("one without mark", 5, false, false, false)
	must.Succeed(t, silent.Release())
	a := share(5, 5)
	want("one with my mark", 5, true, false, false)
	want("one with another mark", 6, false, true, false)
	b := share(least, most)
	want("the smallest", least, true, true, false)
	want("the largest", most, true, true, false)
	must.Succeed(t, b.KeepMark(most))
	want("kept only the largest", most, true, true, false)
	want("kept only the largest", least, false, true, false)
	must.Succeed(t, a.Release())
	want("the other has ended", most, true, false, false)
	must.Succeed(t, b.KeepMark(least)) // it does not have this one
	want("kept none", most, false, false, false)
	must.Succeed(t, b.Release())
	want("alone again", 5, false, false, true)
	if exclusive, err := privatedir.TryLock(dir, "lock", privatedir.Exclusive); err != nil || exclusive != nil {
		t.Errorf("exclusive lock: found %v, error %v, want none of both", exclusive, err)
	}
	must.Succeed(t, me.Release())
}
