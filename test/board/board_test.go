package board_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"b-com.com/accelerator-device-plugin/test/board"
	"b-com.com/accelerator-device-plugin/test/compare"
	"b-com.com/accelerator-device-plugin/test/must"
)

// tree returns the entries below root: directories with a slash, links with their targets, and files with their
// contents.
func tree(t *testing.T, root string) []string {
	t.Helper()
	var all []string
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || path == root {
			return err
		}
		name, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		switch {
		case d.IsDir():
			all = append(all, name+"/")
		case d.Type()&fs.ModeSymlink != 0:
			target, err := os.Readlink(path)
			all = append(all, name+" -> "+target)
			return err
		default:
			content, err := os.ReadFile(path)
			all = append(all, name+": "+string(content))
			return err
		}
		return nil
	})
	must.Succeed(t, err)
	return all
}

func TestUnfold(t *testing.T) {
	root, text := t.TempDir(), "a board\n\n-- sys/a/b --\n1\n-- sys/c/ --\n-- sys/d/link -> ../a --\n"+
		"-- sys/gone -> nowhere --\n-- sys/circle -> circle --\n-- dev/node --\n-- sys/pci0000:00/x --\n"
	must.Succeed(t, board.UnfoldText(root, []byte(text)))
	want := []string{
		"dev/", "dev/node: ", "sys/", "sys/a/", "sys/a/b: 1\n", "sys/c/", "sys/circle -> circle", "sys/d/",
		"sys/d/link -> ../a", "sys/gone -> nowhere", "sys/pci0000:00/", "sys/pci0000:00/x: ",
	}
	compare.Values(t, "tree", want, tree(t, root))
	compare.NoError(t, "a second board", board.UnfoldText(root, []byte("-- sys/a/b --\n2\n-- sys/c/e --\n")))
}

// Each board in testdata says in its header where it comes from. The tests of its family unfold it.
func TestBoards(t *testing.T) {
	files, err := filepath.Glob("../../testdata/sysfs/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("found the boards %v, error %v, want some", files, err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		head, _, _ := strings.Cut(string(text), "-- ")
		if err != nil || !strings.Contains(head, "recorded") && !strings.Contains(head, "Made by hand") {
			t.Errorf("%s: error %v, found %q, want \"recorded\" or \"Made by hand\" in it", file, err, head)
		}
	}
	must.Succeed(t, board.Unfold(t.TempDir(), files[0]))
	compare.Error(t, "a board that does not exist", "", board.Unfold(t.TempDir(), "none.txtar"))
}

// A recorded board's header describes the files that aren't text.
func TestUnfoldRecorded(t *testing.T) {
	const head = "A board.\n\n  sys/config begins 86 80 0a ff\n  sys/stuck does not answer\n  sys/afu_id answers EBUSY\n"
	const files = "\n-- sys/id --\n0\n  sys/id begins ff\n"
	unfold := func(text string) (root string, failing map[string]string, err error) {
		root, file := t.TempDir(), filepath.Join(t.TempDir(), "board.txtar")
		must.Succeed(t, os.WriteFile(file, []byte(text), 0o644))
		failing, err = board.UnfoldRecorded(root, file)
		return root, failing, err
	}
	root, failing, err := unfold(head + files)
	must.Succeed(t, err)
	compare.Values(t, "failing files", map[string]string{"sys/afu_id": "EBUSY"}, failing)
	for name, want := range map[string]string{"sys/config": "\x86\x80\x0a\xff", "sys/id": "0\n  sys/id begins ff\n"} {
		if got, err := os.ReadFile(filepath.Join(root, name)); string(got) != want || err != nil {
			t.Errorf("%s: %q, %v; want %q", name, got, err, want)
		}
	}
	if info, err := os.Lstat(filepath.Join(root, "sys/stuck")); err != nil || info.Mode().Type() != fs.ModeNamedPipe {
		t.Errorf("sys/stuck: %v, %v; want a FIFO", info, err)
	}
	for _, bad := range []string{"sys/config begins 8", "sys/config begins xx", "sys/../../x begins 00", "sys/../../x does not answer"} {
		if _, _, err := unfold("A board.\n\n  " + bad + "\n" + files); err == nil {
			t.Errorf("%s: no error", bad)
		}
	}
}
