package claims

import (
	"context"
	"os"

	"b-com.com/accelerator-device-plugin/internal/privatedir"
)

const (
	FileName    = fileName
	MaxFile     = maxFile
	MaxMetadata = maxMetadata
)

// Rewrite parses the text of a file and writes its claims to a directory. It returns the errors of parsing and of
// writing.
func Rewrite(path string, text []byte) (parsing, writing error) {
	c, err := parse(text)
	if err != nil {
		return err, nil
	}
	return nil, inDir(path, func(dir *os.Root) error { return write(dir, c.Boot, c.Claims) })
}

// Held returns the IDs of the devices that are prepared for a claim in the text of a file, once for each claim.
func Held(text []byte) (ids []string, err error) {
	c, err := parse(text)
	for _, r := range c.Claims {
		for _, d := range r.Devices {
			if !r.Waiting && !d.Admin {
				ids = append(ids, d.id)
			}
		}
	}
	return ids, err
}

// WithLock calls work while this process has the lock of a directory, as another instance would.
func WithLock(path string, work func()) error {
	return inDir(path, func(dir *os.Root) error {
		lock, err := privatedir.AcquireLock(context.Background(), dir, lockName)
		if err != nil {
			return err
		}
		work()
		return lock.Release()
	})
}

func inDir(path string, work func(*os.Root) error) error {
	dir, err := privatedir.OpenDir(path, false)
	if err != nil {
		return err
	}
	defer dir.Close()
	return work(dir)
}
