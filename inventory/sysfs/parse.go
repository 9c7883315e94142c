package sysfs

import (
	"fmt"
	"strconv"
	"strings"
)

// ParsePCIAddress parses DDDD:BB:DD.F, in hexadecimal as the kernel prints it,
// and returns it in lower case. The domain has four digits, or up to eight that
// do not begin with 0 (VMD and Hyper-V domains are that large).
func ParsePCIAddress(s string) (string, error) {
	domain, rest, _ := strings.Cut(s, ":")
	ok := len(domain) == 4 || len(domain) > 4 && len(domain) <= 8 && domain[0] != '0'
	ok = ok && isHex(domain) && len(rest) == len("BB:DD.F") && rest[2] == ':' && rest[5] == '.' &&
		isHex(rest[:2]) && isHex(rest[3:5]) && rest[3] <= '1' && rest[6] >= '0' && rest[6] <= '7'
	if !ok {
		return "", fmt.Errorf("%s is not a PCI address, want DDDD:BB:DD.F in hexadecimal", quote(s))
	}
	return strings.ToLower(s), nil
}

// PCIAddressOf returns the deepest PCI address among the elements of a path, or
// "" where there is none. Bridges come first in a device's path, so the deepest
// is the card.
func PCIAddressOf(path string) string {
	for path != "" {
		last := path[strings.LastIndexByte(path, '/')+1:]
		if address, err := ParsePCIAddress(last); err == nil {
			return address
		}
		path = strings.TrimSuffix(path[:len(path)-len(last)], "/")
	}
	return ""
}

// ParseID parses the id of an AFU or an interface, 32 hex digits, and returns
// it in lower case: some cards were recorded with capitals.
func ParseID(s string) (string, error) {
	if len(s) != 32 || !isHex(s) {
		return "", fmt.Errorf("%s is not an id, want 32 hex digits", quote(s))
	}
	return strings.ToLower(s), nil
}

// AllOnes says whether an id that ParseID returned is all f: what is read from
// a card that does not answer.
func AllOnes(id string) bool {
	return id != "" && strings.Trim(id, "f") == ""
}

// ParseMask parses 0x%llx, or a plain 0.
func ParseMask(s string) (uint64, error) {
	digits, ok := strings.CutPrefix(s, "0x")
	if s == "0" {
		digits, ok = s, true
	}
	if ok && isHex(digits) {
		if v, err := strconv.ParseUint(digits, 16, 64); err == nil {
			return v, nil
		}
	}
	return 0, fmt.Errorf("%s is not a mask, want 0x and up to 64 bits in hexadecimal", quote(s))
}

// ParseSmall parses a decimal number from 0 to 255, e.g. a port's hardware
// number.
func ParseSmall(s string) (int, error) {
	v, err := strconv.ParseUint(s, 10, 8)
	if err != nil {
		return 0, fmt.Errorf("%s is not a small number, want 0 to 255 in decimal", quote(s))
	}
	return int(v), nil
}

// DeviceNumber is the number of a device node.
type DeviceNumber struct{ Major, Minor uint32 }

// ParseDeviceNumber parses MAJOR:MINOR in decimal, as in the attribute dev.
func ParseDeviceNumber(s string) (DeviceNumber, error) {
	major, minor, _ := strings.Cut(s, ":")
	ma, err := strconv.ParseUint(major, 10, 32)
	if err == nil {
		mi, err := strconv.ParseUint(minor, 10, 32)
		if err == nil {
			return DeviceNumber{uint32(ma), uint32(mi)}, nil
		}
	}
	return DeviceNumber{}, fmt.Errorf("%s is not a device number, want MAJOR:MINOR in decimal", quote(s))
}

// isHex says whether s is hex digits and nothing else, and not empty.
func isHex(s string) bool {
	for i := range len(s) {
		c := s[i] | 0x20
		if (s[i] < '0' || s[i] > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return s != ""
}

// quote shows what was found, shortened: a value may be a page of rubbish.
func quote(s string) string {
	const most = 40
	if len(s) > most {
		return fmt.Sprintf("%q… (%d bytes)", s[:most], len(s))
	}
	return strconv.Quote(s)
}
