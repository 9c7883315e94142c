package xrt

import (
	"fmt"
	"strconv"
	"strings"

	"b-com.com/accelerator-device-plugin/internal/sysfs"
)

// mostText is the maximum length of a string in a card's ROM, which reserves 64 bytes for each (FeatureRomHeader).
const mostText = 63

// parseText parses a string that comes from a card's memory, such as the FPGA's name.
func parseText(s string) (string, error) {
	if s == "" || len(s) > mostText || strings.TrimSpace(s) != s || strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r > '~' }) {
		return "", fmt.Errorf("found %s, want 1 to %d printable characters", sysfs.Quote(s), mostText)
	}
	return s, nil
}

// parseVBNV parses a shell's name.
func parseVBNV(s string) (string, error) {
	if s, err := parseText(s); err == nil && !strings.Contains(s, " ") {
		return s, nil
	}
	return "", fmt.Errorf("found %s, want the name of a shell: 1 to %d printable characters without spaces", sysfs.Quote(s), mostText)
}

// parseTimestamp parses a shell's build time in seconds, which is 0 if the shell is identified by UUIDs.
func parseTimestamp(s string) (string, error) {
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil {
		return "", fmt.Errorf("found %s, want a decimal number", sysfs.Quote(s))
	}
	return strconv.FormatUint(n, 10), nil
}

// parseUUID parses a list of UUIDs, one per line. It returns "" unless there is exactly one, because if there are
// several interfaces, none of them identifies the whole shell. XRT does the same (interface_uuid in xrt_device.cpp).
func parseUUID(s string) (string, error) {
	lines := strings.Fields(s)
	for i, l := range lines {
		id, err := sysfs.ParseID(l)
		if err != nil {
			return "", err
		}
		lines[i] = id
	}
	if len(lines) != 1 {
		return "", nil
	}
	return lines[0], nil
}

// parseState parses a state attribute, which is 0 if all is well. xocl prints an error as a negative number.
func parseState(s string) (int, error) {
	n, err := strconv.Atoi(s)
	if err != nil {
		return 0, fmt.Errorf("found %s, want a decimal number", sysfs.Quote(s))
	}
	return n, nil
}

// parseReady parses the value that says whether the management function is connected. As with other states, it returns
// 0 if all is well. xocl prints the value in hexadecimal, and xclmgmt in decimal.
func parseReady(s string) (int, error) {
	switch n, err := strconv.ParseUint(s, 0, 64); {
	case err != nil || strings.Contains(s, "_"):
		return 0, fmt.Errorf("found %s, want a number", sysfs.Quote(s))
	case n == 0:
		return 1, nil
	}
	return 0, nil
}

// parseCount parses a number that the kernel printed with %llu.
func parseCount(s string) (uint64, error) {
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("found %s, want a decimal number", sysfs.Quote(s))
	}
	return n, nil
}
