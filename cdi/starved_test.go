package cdi_test

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"b-com.com/accelerator-device-plugin/cdi"
	"b-com.com/accelerator-device-plugin/test/compare"
	"b-com.com/accelerator-device-plugin/test/must"
)

// Without a file descriptor, the file can't be read. Its content is then considered unchanged as long as its times,
// size and inode stay the same. This can't run in parallel, because it would leave other tests without descriptors too.
func TestOutOfDescriptors(t *testing.T) {
	one := cdi.Device{ID: "3b:00.0", Nodes: []string{"dfl-port.0"}}
	two := cdi.Device{ID: "5e:00.0", Nodes: []string{"dfl-port.1"}}
	var limit syscall.Rlimit
	must.Succeed(t, syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit))
	for _, test := range []struct {
		name   string
		modify func(path string) error
		want   error
	}{
		{"unmodified", func(string) error { return nil }, nil},
		{"modified", func(path string) error { return os.Chtimes(path, time.Time{}, time.Unix(1, 0)) }, syscall.EMFILE},
		{"mode", func(path string) error { return os.Chmod(path, 0o600) }, syscall.EMFILE},
		{"removed", os.Remove, syscall.EMFILE},
		{"replaced", func(path string) error {
			text, err := os.ReadFile(path)
			return errors.Join(err, os.Remove(path), os.WriteFile(path, text, 0o644))
		}, syscall.EMFILE},
	} {
		t.Run(test.name, func(t *testing.T) {
			dir := t.TempDir()
			s := open(t, dir)
			write(t, s, one)
			specs, err := filepath.Glob(dir + "/*.json")
			if err != nil || len(specs) != 1 {
				t.Fatalf("specs %v, error %v; want one", specs, err)
			}
			must.Succeed(t, test.modify(specs[0]))
			must.Succeed(t, syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: 3, Max: limit.Max}))
			defer syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit)
			compare.ErrorIs(t, "Write of the same devices", test.want, s.Write([]cdi.Device{one}))
			compare.ErrorIs(t, "Write of other devices", syscall.EMFILE, s.Write([]cdi.Device{one, two}))
			wantName(t, s, two.ID, false)
		})
	}
}
