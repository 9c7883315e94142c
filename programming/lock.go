package programming

import (
	"context"
	"fmt"

	"b-com.com/accelerator-device-plugin/internal/privatedir"
	"b-com.com/accelerator-device-plugin/internal/sysfs"
)

// AcquireLock acquires the lock for programming the card whose FME has the given PCI address. It blocks until no other
// process holds the lock, or until ctx is done. The lock file is in dir, which is created if necessary and must meet
// the same requirements as a [Store].
func AcquireLock(ctx context.Context, dir, address string) (*privatedir.Lock, error) {
	address, err := sysfs.ParsePCIAddress(address)
	if err != nil {
		return nil, fmt.Errorf("lock: %w", err)
	}
	root, err := privatedir.OpenDir(dir, true)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	return privatedir.AcquireLock(ctx, root, address+".lock")
}
