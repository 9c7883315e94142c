package cordon

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"b-com.com/accelerator-device-plugin/internal/trust"
)

// Names in the state directory.
const (
	fileName = "cordons.json"
	newName  = "cordons.json.new" // of a new file before its rename; only the holder of the lock writes it
	lockName = "cordons.lock"
)

// read returns the cordons in the file. The error wraps fs.ErrNotExist if there is none.
func read(dir *os.Root) ([]Cordon, error) {
	file, err := trust.OpenFile(dir, fileName, os.O_RDONLY)
	for errors.Is(err, trust.ErrReplaced) { // by another daemon
		file, err = trust.OpenFile(dir, fileName, os.O_RDONLY)
	}
	if err != nil {
		return nil, err
	}
	defer file.Close()
	path := filepath.Join(dir.Name(), fileName)
	text, err := io.ReadAll(io.LimitReader(file, maxFile+1))
	if err != nil {
		return nil, trust.PathError(path, err)
	}
	if len(text) > maxFile {
		return nil, fmt.Errorf("%s: found more than %d bytes, want at most %[2]d", path, maxFile)
	}
	all, err := parse(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return all, nil
}

// write replaces the file atomically, and returns the cordons as read does. If the returned slice is nil,
// the file is unchanged. The caller holds the lock.
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
	if err := fill(dir, text.Bytes()); err != nil {
		_ = dir.Remove(newName)
		return nil, trust.PathError(filepath.Join(dir.Name(), newName), err)
	}
	if err := dir.Rename(newName, fileName); err != nil {
		_ = dir.Remove(newName)
		return nil, trust.PathError(filepath.Join(dir.Name(), fileName), err)
	}
	if err := syncDir(dir); err != nil {
		return all, fmt.Errorf("written, but perhaps not on the disk: %w", trust.PathError(dir.Name(), err))
	}
	return all, nil
}

// fill writes the new file to the disk. It replaces a new file that a killed writer has left.
func fill(dir *os.Root, text []byte) error {
	if err := dir.Remove(newName); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	file, err := dir.OpenFile(newName, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = file.Write(text)
	if err == nil {
		err = file.Sync()
	}
	return errors.Join(err, file.Close())
}

func syncDir(dir *os.Root) error {
	file, err := dir.Open(".")
	if err != nil {
		return err
	}
	return errors.Join(file.Sync(), file.Close())
}
