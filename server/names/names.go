// Package names gives resources the names that Intel's FPGA plugin gave them, and checks names.
//
// It is pure, and imports nothing of ours: the daemon names its resources with it, and the
// operator the resources that pods ask for.
package names

import (
	"encoding/base64"
	"encoding/hex"
	"slices"
	"strings"
)

// The prefixes of the names.
const (
	prefixAF     = "af-"
	prefixRegion = "region-"
)

// AF returns the name of the resource for an AFU on an interface, without the domain: the first
// three digits of both for people, then the 32 bytes of both in base64. It returns false if one
// of them is no id, see [IsID].
func AF(iface, afu string) (name string, ok bool) {
	i, a := idBytes(iface), idBytes(afu)
	if i == nil || a == nil {
		return "", false
	}
	return prefixAF + iface[:3] + "." + afu[:3] + "." + base64.RawURLEncoding.EncodeToString(slices.Concat(i, a)), true
}

// Region returns the name of the resource for the cards of an interface, without the domain. It
// returns false if that is no id, see [IsID].
func Region(iface string) (name string, ok bool) {
	if !IsID(iface) {
		return "", false
	}
	return prefixRegion + iface, true
}

// IsID reports whether s is an id of an AFU or of an interface: 32 hexadecimal digits in lower
// case. Hardware cannot put other characters into the name of a resource.
func IsID(s string) bool { return idBytes(s) != nil }

// idBytes returns the 16 bytes of an id, or nil if it is none.
func idBytes(s string) []byte {
	b, err := hex.DecodeString(s)
	if err != nil || len(b) != 16 || strings.ToLower(s) != s {
		return nil
	}
	return b
}

// Ours reports whether a name, without the domain, may be one that AF or Region returns.
func Ours(name string) bool {
	return strings.HasPrefix(name, prefixAF) || strings.HasPrefix(name, prefixRegion)
}
