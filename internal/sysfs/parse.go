package sysfs

import (
	"fmt"
	"strconv"
	"strings"
)

// ParsePCIAddress parses a PCI address in the kernel's format, DDDD:BB:DD.F in hexadecimal, and returns it in lower
// case. The domain has four digits, or five to eight if the first one isn't 0 (VMD and Hyper-V domains).
func ParsePCIAddress(s string) (string, error) {
	if !isAddress(s) {
		return "", fmt.Errorf("found %s, want a PCI address DDDD:BB:DD.F in hexadecimal", Quote(s))
	}
	return strings.ToLower(s), nil
}

func isAddress[S string | []byte](s S) bool {
	const tail = len(":BB:DD.F")
	domain := len(s) - tail
	if domain < 4 || domain > 8 || domain > 4 && s[0] == '0' || !isHex(s[:domain]) {
		return false
	}
	s = s[domain:]
	return s[0] == ':' && isHex(s[1:3]) && s[3] == ':' && isHex(s[4:6]) && s[4] < '2' &&
		s[6] == '.' && '0' <= s[7] && s[7] <= '7'
}

// PCIAddressOf returns the last PCI address among a path's elements, or "" if there is none. In a device's path,
// bridges come before the card, so the last address is the card's. PCIAddressOf doesn't allocate anything but the
// address.
func PCIAddressOf[S string | []byte](path S) string {
	for end := len(path); end > 0; {
		begin := end
		for begin > 0 && path[begin-1] != '/' {
			begin--
		}
		if isAddress(path[begin:end]) {
			return strings.ToLower(string(path[begin:end]))
		}
		end = begin - 1
	}
	return ""
}

// ParseID parses an AFU or interface id, which has 32 hex digits, and returns it in lower case. Some of the recorded
// cards use upper case.
func ParseID(s string) (string, error) {
	if len(s) != 32 || !isHex(s) {
		return "", fmt.Errorf("found %s, want an id of 32 hex digits", Quote(s))
	}
	return strings.ToLower(s), nil
}

// AllOnes reports whether all digits of an id from ParseID are f, which means that the card doesn't respond.
func AllOnes(id string) bool {
	return id != "" && strings.Trim(id, "f") == ""
}

// ParseMask parses a value that the kernel printed with 0x%llx. It also accepts 0 without the 0x.
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
	return 0, fmt.Errorf("found %s, want 0x and up to 64 bits in hexadecimal", Quote(s))
}

// ParseUint8 parses a decimal number from 0 to 255, such as a port's hardware number.
func ParseUint8(s string) (int, error) {
	v, err := strconv.ParseUint(s, 10, 8)
	if err != nil {
		return 0, fmt.Errorf("found %s, want 0 to 255 in decimal", Quote(s))
	}
	return int(v), nil
}

// DeviceNumber is the number of a device node.
type DeviceNumber struct{ Major, Minor uint32 }

// String returns MAJOR:MINOR in decimal, as in the dev attribute.
func (n DeviceNumber) String() string {
	text := strconv.AppendUint(make([]byte, 0, len("4095:1048575")), uint64(n.Major), 10)
	return string(strconv.AppendUint(append(text, ':'), uint64(n.Minor), 10))
}

// ParseDeviceNumber parses MAJOR:MINOR in decimal, as in the dev attribute.
func ParseDeviceNumber(s string) (DeviceNumber, error) {
	major, minor, _ := strings.Cut(s, ":")
	ma, err := strconv.ParseUint(major, 10, 32)
	if err == nil {
		mi, err := strconv.ParseUint(minor, 10, 32)
		if err == nil {
			return DeviceNumber{uint32(ma), uint32(mi)}, nil
		}
	}
	return DeviceNumber{}, fmt.Errorf("found %s, want a device number MAJOR:MINOR in decimal", Quote(s))
}

// isHex reports whether s is non-empty and consists of hex digits.
func isHex[S string | []byte](s S) bool {
	for i := range len(s) {
		c := s[i] | 0x20
		if (s[i] < '0' || s[i] > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return len(s) > 0
}

// Quote quotes a value for use in an error. It shortens long values, because an attribute may contain a page of
// garbage.
func Quote(s string) string {
	const most = 40
	if len(s) > most {
		return fmt.Sprintf("%q… (%d bytes)", s[:most], len(s))
	}
	return strconv.Quote(s)
}

// Numbered reports whether name is prefix followed by a decimal number.
func Numbered(name, prefix string) bool {
	digits, ok := strings.CutPrefix(name, prefix)
	return ok && digits != "" && strings.Trim(digits, "0123456789") == ""
}
