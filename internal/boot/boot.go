// Package boot identifies the machine's current boot, so that a program can tell whether a record on disk is from
// before a reboot.
package boot

import (
	"os"
	"strings"
)

// ID returns the ID that the kernel generated at boot. It is the same in all containers.
func ID() (string, error) {
	text, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(text)), err
}
