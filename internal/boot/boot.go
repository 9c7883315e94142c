// Package boot identifies the boot of the machine, so that a record on disk is not taken for one of the present boot.
package boot

import (
	"os"
	"strings"
)

// ID returns an id that the kernel generates at each boot. All containers read the same id.
func ID() (string, error) {
	text, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(text)), err
}
