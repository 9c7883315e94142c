package sysfs

import (
	"errors"
	"strings"
)

// ParseDevice parses a card, or one of its ports, as written by an administrator: [DDDD:]BB:DD.F[-pN], in upper- or
// lower-case hexadecimal, where N is the number of a hardware port, 0 to 3. It returns s in the form used in device
// ids: in lower case, and without the domain if that is 0. The error describes the allowed format but doesn't contain
// s.
func ParseDevice(s string) (string, error) {
	address, port, hasPort := strings.Cut(s, "-")
	address, err := ParseCard(address)
	if err == nil && !hasPort {
		return address, nil
	}
	if port = strings.ToLower(port); err != nil || len(port) != 2 || port[0] != 'p' || port[1] < '0' || port[1] > '3' {
		return "", errors.New("want the PCI address of a card, such as 3b:00.0 or 0001:3b:00.0, " +
			"or of one port of it, 3b:00.0-p0 to 3b:00.0-p3")
	}
	return address + "-" + port, nil
}

// ParseCard parses a card's PCI address the same way as ParseDevice.
func ParseCard(s string) (string, error) {
	address, err := ParseAddress(s)
	return strings.TrimPrefix(address, "0000:"), err
}

// ParseAddress parses a card's PCI address the same way as ParseDevice, and returns it in the form used in sysfs: in
// lower case, with the domain.
func ParseAddress(s string) (string, error) {
	s = strings.ToLower(s)
	if strings.Count(s, ":") == 1 {
		s = "0000:" + s
	}
	if !isAddress(s) {
		return "", errors.New("want the PCI address of a card, such as 3b:00.0 or 0001:3b:00.0")
	}
	return s, nil
}
