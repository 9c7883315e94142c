package privatedir_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"b-com.com/accelerator-device-plugin/internal/privatedir"
	"b-com.com/accelerator-device-plugin/test/compare"
)

func TestReplaceFile(t *testing.T) {
	path := ownDir(t)
	dir, err := privatedir.OpenDir(path, false)
	check(t, err)
	defer dir.Close()
	compare.ErrorIs(t, "missing file", fs.ErrNotExist, compare.ErrorOf(privatedir.ReadFile(dir, "file", 4)))
	check(t, privatedir.RemoveFile(dir, "file"))
	for _, text := range []string{"one", "", "four"} {
		check(t, os.WriteFile(path+"/file.new", []byte("of a killed process"), 0o644))
		replaced, err := privatedir.ReplaceFile(dir, "file", []byte(text))
		if !replaced || err != nil {
			t.Fatalf("replaced %v, error %v", replaced, err)
		}
		got, err := privatedir.ReadFile(dir, "file", 4)
		if string(got) != text || err != nil {
			t.Errorf("found %q, %v, want %q", got, err, text)
		}
		if info, err := os.Lstat(path + "/file"); err != nil || info.Mode() != 0o600 {
			t.Errorf("mode: found %v, %v, want 0600", info.Mode(), err)
		}
	}
	compare.Error(t, "ReadFile", path+"/file: found more than 3 bytes", compare.ErrorOf(privatedir.ReadFile(dir, "file", 3)))

	// A link is replaced, not its target.
	check(t, os.WriteFile(path+"/target", []byte("x"), 0o600), os.Remove(path+"/file"), os.Symlink("target", path+"/file"),
		os.Symlink("target", path+"/file.new"))
	compare.Error(t, "link", "want a regular file", compare.ErrorOf(privatedir.ReadFile(dir, "file", 4)))
	if replaced, err := privatedir.ReplaceFile(dir, "file", []byte("two")); !replaced || err != nil {
		t.Errorf("link: replaced %v, error %v", replaced, err)
	}
	if text, err := os.ReadFile(path + "/target"); string(text) != "x" || err != nil {
		t.Errorf("target of the link: found %q, %v, want it unchanged", text, err)
	}

	// A directory with the name cannot be replaced.
	check(t, os.MkdirAll(path+"/dir/x", 0o700))
	if replaced, err := privatedir.ReplaceFile(dir, "dir", nil); replaced || err == nil || !strings.HasPrefix(err.Error(), path+"/dir: ") {
		t.Errorf("directory: replaced %v, error %v, want one with the path", replaced, err)
	}
	check(t, privatedir.RemoveFile(dir, "file"), privatedir.RemoveFile(dir, "file"))
	if err := privatedir.RemoveFile(dir, "dir"); err == nil || !strings.HasPrefix(err.Error(), path+"/dir: ") {
		t.Errorf("directory: error %v, want one with the path", err)
	}
	left, err := filepath.Glob(path + "/*")
	if len(left) != 2 || err != nil { // dir and target
		t.Errorf("left in the directory: found %q, %v, want two", left, err)
	}
}
