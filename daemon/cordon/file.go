package cordon

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"b-com.com/accelerator-device-plugin/internal/privatedir"
)

// Names in the state directory.
const (
	fileName = "cordons.json"
	lockName = "cordons.lock"
)

// read returns the cordons in cordons.json. The error wraps fs.ErrNotExist if there is no such file.
func read(dir *os.Root) ([]Cordon, error) {
	text, err := privatedir.ReadFile(dir, fileName, maxFile)
	if err != nil {
		return nil, err
	}
	all, err := parse(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", filepath.Join(dir.Name(), fileName), err)
	}
	return all, nil
}

// write atomically replaces cordons.json, and returns the cordons in the same form as read. If it returns a nil slice,
// the file is unchanged. The caller must hold the lock.
func write(dir *os.Root, all []Cordon) ([]Cordon, error) {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetIndent("", "  ")
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(content{append([]Cordon{}, all...)})
	if err == nil {
		all, err = parse(text.Bytes())
	}
	if err != nil {
		return nil, err
	}
	replaced, err := privatedir.ReplaceFile(dir, fileName, text.Bytes())
	if !replaced {
		return nil, err
	}
	return all, err
}
