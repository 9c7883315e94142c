package watcher

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// checkRoots refuses what no waiting can mend. A missing Dev is not refused: a
// simulated node may make it later.
func checkRoots(cfg Config) error {
	if err := checkDir(cfg.Sysfs); err != nil {
		return fmt.Errorf("sysfs root: %w", err)
	}
	if err := checkDir(cfg.Dev); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("device root: %w", err)
	}
	return nil
}

func checkDir(path string) error {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%q: found nothing, allowed is a directory: %w", path, fs.ErrNotExist)
	}
	if err != nil {
		return err
	}
	if !info.IsDir() {
		return fmt.Errorf("%q: found a file of mode %s, allowed is a directory", path, info.Mode())
	}
	return nil
}
