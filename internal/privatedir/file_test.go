package privatedir_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"b-com.com/accelerator-device-plugin/internal/privatedir"
	"b-com.com/accelerator-device-plugin/test/compare"
	"b-com.com/accelerator-device-plugin/test/must"
)

func TestReplaceFile(t *testing.T) {
	path := ownDir(t)
	dir := must.Value(privatedir.OpenDir(path, false))(t)
	defer dir.Close()
	compare.ErrorIs(t, "missing file", fs.ErrNotExist, compare.ErrorOf(privatedir.ReadFile(dir, "file", 4)))
	must.Succeed(t, privatedir.RemoveFile(dir, "file"))
	for _, text := range []string{"one", "", "four"} {
		must.Succeed(t, os.WriteFile(path+"/file.new", []byte("of a killed process"), 0o644))
		compare.Equal(t, "replaced", true, must.Value(privatedir.ReplaceFile(dir, "file", []byte(text)))(t))
		compare.Equal(t, "text", text, string(must.Value(privatedir.ReadFile(dir, "file", 4))(t)))
		if info, err := os.Lstat(path + "/file"); err != nil || info.Mode() != 0o600 {
			t.Errorf("mode: found %v, %v, want 0600", info.Mode(), err)
		}
	}
	compare.Error(t, "ReadFile", path+"/file: found more than 3 bytes", compare.ErrorOf(privatedir.ReadFile(dir, "file", 3)))

	// A link is replaced, not its target.
	must.Succeed(t, os.WriteFile(path+"/target", []byte("x"), 0o600), os.Remove(path+"/file"), os.Symlink("target", path+"/file"),
		os.Symlink("target", path+"/file.new"))
	compare.Error(t, "link", "want a regular file", compare.ErrorOf(privatedir.ReadFile(dir, "file", 4)))
	compare.Equal(t, "replaced the link", true, must.Value(privatedir.ReplaceFile(dir, "file", []byte("two")))(t))
	compare.Equal(t, "target of the link", "x", string(must.Value(os.ReadFile(path+"/target"))(t)))

	// A directory with the name cannot be replaced.
	must.Succeed(t, os.MkdirAll(path+"/dir/x", 0o700))
	if replaced, err := privatedir.ReplaceFile(dir, "dir", nil); replaced || err == nil || !strings.HasPrefix(err.Error(), path+"/dir: ") {
		t.Errorf("directory: replaced %v, error %v, want one with the path", replaced, err)
	}
	must.Succeed(t, privatedir.RemoveFile(dir, "file"), privatedir.RemoveFile(dir, "file"))
	compare.Error(t, "directory", path+"/dir: ", privatedir.RemoveFile(dir, "dir"))
	left := must.Value(filepath.Glob(path + "/*"))(t)
	compare.Values(t, "left in the directory", []string{path + "/dir", path + "/target"}, left)
}
