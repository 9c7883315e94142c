package board

import (
	"fmt"
	"os"
	"strings"

	"golang.org/x/tools/txtar"
)

// Unfold makes the tree of the board in file below the existing directory root.
// Two boards may be unfolded into one root: directories are shared, files
// overwritten; a link that is there already is an error.
func Unfold(root, file string) error {
	data, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	if err := UnfoldText(root, data); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	return nil
}

// UnfoldText is Unfold for a board that is not in a file.
func UnfoldText(root string, board []byte) error {
	r, err := openTree(root)
	if err != nil {
		return err
	}
	defer r.Close()
	for _, f := range txtar.Parse(board).Files {
		if err := unfold(r, f); err != nil {
			return fmt.Errorf("%s: %w", f.Name, err)
		}
	}
	return nil
}

func unfold(r tree, f txtar.File) error {
	name, target, isLink := strings.Cut(f.Name, " -> ")
	switch dir, isDir := strings.CutSuffix(name, "/"); {
	case isLink:
		return r.link(name, target)
	case isDir:
		return r.dir(dir)
	}
	return r.file(name, f.Data)
}
