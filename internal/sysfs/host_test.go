package sysfs_test

import (
	"errors"
	"io/fs"
	"os"
	"strings"
	"testing"

	"b-com.com/accelerator-device-plugin/internal/sysfs"
	"b-com.com/accelerator-device-plugin/test/must"
)

func TestCheckDir(t *testing.T) {
	dir := t.TempDir()
	file := dir + "/file"
	must.Succeed(t, os.WriteFile(file, nil, 0o600))
	for _, test := range []struct {
		path, err string // part of the error, "" if there is none
		missing   bool
	}{
		{dir, "", false},
		{"", `"": found nothing, want a directory`, true},
		{dir + "/none", `/none": found nothing, want a directory`, true},
		{file, `/file": found a file of mode -rw-------, want a directory`, false},
	} {
		err := sysfs.CheckDir(test.path)
		if errors.Is(err, fs.ErrNotExist) != test.missing || (err == nil) != (test.err == "") ||
			err != nil && !strings.Contains(err.Error(), test.err) {
			t.Errorf("CheckDir(%q) = %v, want %q", test.path, err, test.err)
		}
	}
}
