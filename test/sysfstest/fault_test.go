package sysfstest_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"

	"b-com.com/accelerator-device-plugin/test/must"
	"b-com.com/accelerator-device-plugin/test/sysfstest"
)

func TestRefuse(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	must.Succeed(t, os.WriteFile(file, []byte("text"), 0o600))
	open := func() (fd int, err error) { return syscall.Open(file, syscall.O_RDONLY, 0) }
	var fd int
	var opened, lstat, read error
	work := func() {
		var st syscall.Stat_t
		var buf [8]byte
		fd, opened = open()
		lstat = syscall.Lstat(file, &st)
		_, read = syscall.Read(fd, buf[:])
		syscall.Close(fd)
	}
	for _, test := range []struct {
		nth                 int
		opened, lstat, read error
	}{
		{-1, nil, nil, nil},
		{0, syscall.EMFILE, nil, syscall.EBADF},
		{1, nil, syscall.ENOMEM, nil},
		{2, nil, nil, syscall.ENOMEM},
		{3, nil, nil, nil},
	} {
		n := sysfstest.Refuse(t, test.nth, work)
		if n != 3 || !errors.Is(opened, test.opened) || !errors.Is(lstat, test.lstat) || !errors.Is(read, test.read) {
			t.Errorf("access %d of 3 refused: %d accesses, open %v, lstat %v, read %v; want %v, %v, %v",
				test.nth, n, opened, lstat, read, test.opened, test.lstat, test.read)
		}
	}
	if fd, err := open(); err != nil {
		t.Errorf("open in another goroutine: %v, want nil", err)
	} else {
		syscall.Close(fd)
	}
}

func TestBefore(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	for nth := range 3 {
		var found []bool
		n := sysfstest.Before(t, nth, func() {
			must.Succeed(t, os.WriteFile(file, nil, 0o600))
		}, func() {
			for range 2 {
				var st syscall.Stat_t
				found = append(found, syscall.Lstat(file, &st) == nil)
			}
		})
		if want := []bool{nth == 0, nth < 2}; n != 2 || !slices.Equal(found, want) {
			t.Errorf("change before access %d of 2: %d accesses, found %v, want %v", nth, n, found, want)
		}
		os.Remove(file)
	}
}
