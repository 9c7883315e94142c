package owner_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"b-com.com/accelerator-device-plugin/daemon/control"
	"b-com.com/accelerator-device-plugin/test/compare"
	"b-com.com/accelerator-device-plugin/test/must"
)

func TestLockCheck(t *testing.T) {
	for _, test := range []struct {
		name   string
		change func(dir string) error
		want   string
	}{
		{"unchanged", func(string) error { return nil }, ""},
		{"other files", func(dir string) error { return os.WriteFile(filepath.Join(dir, "cordons.json"), nil, 0o600) }, ""},
		{"removed", os.RemoveAll, "was removed or replaced"},
		{"replaced", func(dir string) error {
			return errors.Join(os.Rename(dir, dir+".old"), os.CopyFS(dir, os.DirFS(dir+".old")))
		}, "was removed or replaced"},
		{"a file in its place", func(dir string) error { return errors.Join(os.RemoveAll(dir), os.WriteFile(dir, nil, 0o600)) }, "not a directory"},
	} {
		t.Run(test.name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "state")
			onNodeWith(t, dir, func(n *node) {
				check := n.owner(control.DevicePlugin).LockCheck()
				must.Succeed(n, test.change(dir))
				compare.Outcome(n, "check", test.want, check())
			})
		})
	}
}
