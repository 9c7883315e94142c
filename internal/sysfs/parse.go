package sysfs

import (
	"fmt"
	"strconv"
	"strings"
)

// ParsePCIAddress parses a PCI address as the kernel prints it, DDDD:BB:DD.F in hexadecimal, and
// returns it in lower case. The domain has four digits, or five to eight digits of which the
// first is not 0 (the domains of VMD and Hyper-V).
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

// PCIAddressOf returns the last PCI address among the elements of a path, or "" if there is none.
// The bridges are before the card in the path of a device, so the last address is the card's. It
// allocates only the address.
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

// ParseID parses the id of an AFU or an interface, 32 hex digits, and returns it in lower case.
// Some recorded cards have upper case.
func ParseID(s string) (string, error) {
	if len(s) != 32 || !isHex(s) {
		return "", fmt.Errorf("found %s, want an id of 32 hex digits", Quote(s))
	}
	return strings.ToLower(s), nil
}

// AllOnes reports whether all digits of an id, as ParseID returns it, are f. A card that does not answer reports such
// an id.
func AllOnes(id string) bool {
	return id != "" && strings.Trim(id, "f") == ""
}

// ParseMask parses a value that the kernel printed with 0x%llx, or 0 without 0x.
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

// ParseUint8 parses a decimal number from 0 to 255, such as the hardware number of a port.
func ParseUint8(s string) (int, error) {
	v, err := strconv.ParseUint(s, 10, 8)
	if err != nil {
		return 0, fmt.Errorf("found %s, want 0 to 255 in decimal", Quote(s))
	}
	return int(v), nil
}

// DeviceNumber is the device number of a node.
type DeviceNumber struct{ Major, Minor uint32 }

// String returns MAJOR:MINOR in decimal, as in the attribute dev.
func (n DeviceNumber) String() string {
	text := strconv.AppendUint(make([]byte, 0, len("4095:1048575")), uint64(n.Major), 10)
	return string(strconv.AppendUint(append(text, ':'), uint64(n.Minor), 10))
}

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
	return DeviceNumber{}, fmt.Errorf("found %s, want a device number MAJOR:MINOR in decimal", Quote(s))
}

// isHex reports whether s consists of hex digits, and is not empty.
func isHex[S string | []byte](s S) bool {
	for i := range len(s) {
		c := s[i] | 0x20
		if (s[i] < '0' || s[i] > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return len(s) > 0
}

// Quote quotes a value for an error. It shortens a long value, because an attribute may contain a page of garbage.
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
