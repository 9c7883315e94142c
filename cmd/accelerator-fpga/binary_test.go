package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"b-com.com/accelerator-device-plugin/test/compare"
	"b-com.com/accelerator-device-plugin/test/must"
)

// hostDir returns a directory that only its owner can change, and this program's content.
func hostDir(t *testing.T) (dir string, self []byte) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "bin")
	self, err := os.ReadFile("/proc/self/exe")
	must.Succeed(t, err, os.Mkdir(dir, 0o700), os.Chmod(dir, 0o755))
	return dir, self
}

// wantInstalled checks that the directory contains the program and nothing else.
func wantInstalled(t *testing.T, dir string, self []byte) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 || entries[0].Name() != "accelerator-fpga" {
		t.Fatalf("directory has %v (%v), want accelerator-fpga alone", entries, err)
	}
	path := filepath.Join(dir, "accelerator-fpga")
	info, err := os.Lstat(path)
	if err != nil || info.Mode() != 0o755 {
		t.Errorf("mode %v (%v), want a file of mode 0755", info.Mode(), err)
	}
	if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, self) {
		t.Errorf("%d bytes (%v), want the %d of this program", len(got), err, len(self))
	}
}

func TestInstallBinary(t *testing.T) {
	defer syscall.Umask(syscall.Umask(0o077))
	dir, self := hostDir(t)
	path := filepath.Join(dir, "accelerator-fpga")
	install := func() {
		t.Helper()
		var out, errs bytes.Buffer
		if code := run(t.Context(), []string{"install-binary", dir}, &out, &errs); code != 0 || out.String() != path+"\n" {
			t.Fatalf("exit code %d, printed %q and %q", code, out.String(), errs.String())
		}
		wantInstalled(t, dir, self)
	}
	install()
	// A killed installation has left a file behind. Another version is installed and running.
	must.Succeed(t, os.WriteFile(filepath.Join(dir, ".accelerator-fpga.KILLED"), []byte("half"), 0o600))
	sleep := must.Value(exec.LookPath("sleep"))(t)
	text, err := os.ReadFile(sleep)
	must.Succeed(t, err, os.Remove(path), os.WriteFile(path, text, 0o755), os.Chmod(path, 0o755))
	old := exec.CommandContext(t.Context(), path, "1000")
	old.Args[0] = "sleep"
	must.Succeed(t, old.Start())
	install()
	compare.NoError(t, "the running old version", old.Process.Signal(syscall.Signal(0)))
	old.Process.Kill()
	old.Wait() // returns an error, because the process was killed
	install()
}

// While the program is installed over and over, there is always a complete copy.
func TestInstallBinaryIsNeverMissing(t *testing.T) {
	dir, self := hostDir(t)
	must.Succeed(t, installBinary(dir))
	ended := make(chan struct{})
	var reader sync.WaitGroup
	reader.Go(func() {
		for {
			if err := sameSize(filepath.Join(dir, "accelerator-fpga"), int64(len(self))); err != nil {
				t.Error(err)
				return
			}
			select {
			case <-ended:
				return
			default:
			}
		}
	})
	for range 10 {
		must.Succeed(t, installBinary(dir))
	}
	close(ended)
	reader.Wait()
	wantInstalled(t, dir, self)
}

// sameSize returns an error unless the file can be opened and read, and has this size.
func sameSize(path string, want int64) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	if n, err := io.Copy(io.Discard, file); n != want || err != nil {
		return fmt.Errorf("read %d bytes (%v), want %d", n, err, want)
	}
	return nil
}

func TestInstallBinaryRefuses(t *testing.T) {
	for _, test := range []struct {
		name string
		make func(dir, path string) error
		want string
	}{
		{"no directory", func(dir, _ string) error { return os.Remove(dir) }, "no such file or directory"},
		{"a file", func(dir, _ string) error { return errors.Join(os.Remove(dir), os.WriteFile(dir, nil, 0o644)) }, "want a directory"},
		{"writable by the group", func(dir, _ string) error { return os.Chmod(dir, 0o775) }, "found mode 0775, want it not writable by group and others"},
		{"a link", func(_, path string) error { return os.Symlink("/bin/true", path) }, "L---------, want a regular file or none: remove it"},
		{"a directory", func(_, path string) error { return os.Mkdir(path, 0o755) }, "d---------, want a regular file or none"},
		{"a pipe", func(_, path string) error { return syscall.Mkfifo(path, 0o755) }, "p---------, want a regular file or none"},
	} {
		t.Run(test.name, func(t *testing.T) {
			dir, _ := hostDir(t)
			path := filepath.Join(dir, "accelerator-fpga")
			must.Succeed(t, test.make(dir, path))
			before, _ := os.ReadDir(dir)
			var out, errs bytes.Buffer
			if code := run(t.Context(), []string{"install-binary", dir}, &out, &errs); code != 1 || !strings.Contains(errs.String(), test.want) {
				t.Errorf("exit code %d, printed %q, want 1 and %q", code, errs.String(), test.want)
			}
			if after, _ := os.ReadDir(dir); len(after) != len(before) {
				t.Errorf("directory has %v, want %v", after, before)
			}
		})
	}
	var out, errs bytes.Buffer
	if code := run(t.Context(), []string{"install-binary"}, &out, &errs); code != 2 || !strings.Contains(errs.String(), "DIRECTORY: found 0, want one") {
		t.Errorf("exit code %d, printed %q, want 2", code, errs.String())
	}
}

// A file system that is mounted noexec is rejected, because otherwise containers couldn't start.
func TestInstallBinaryNoexec(t *testing.T) {
	dir, _ := hostDir(t)
	if err := syscall.Mount("tmpfs", dir, "tmpfs", syscall.MS_NOEXEC, "mode=755"); errors.Is(err, syscall.EPERM) {
		t.Skip("not allowed to mount a file system")
	} else if err != nil {
		t.Fatal(err)
	}
	defer syscall.Unmount(dir, syscall.MNT_DETACH)
	compare.Error(t, "installBinary", "mounted noexec", installBinary(dir))
}
