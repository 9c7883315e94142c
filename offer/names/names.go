// Package names makes the resource names that Intel's and Xilinx's FPGA plugins used, and validates names.
//
// It is pure, and imports no other package of this project: the daemon names its resources with it,
// and the operator names the resources that pods request.
package names

import (
	"encoding/base64"
	"encoding/hex"
	"slices"
	"strings"
)

// The defaults for the resource of the modes single and pool, and for the domain of the resources of the other modes.
const (
	DefaultResource = "b-com.com/accelerator"
	DefaultDomain   = "fpga.intel.com"
)

// The prefixes of the names.
const (
	prefixAF     = "af-"
	prefixRegion = "region-"
)

// AF returns the name of the resource for an AFU on an interface, without the domain: the first
// three digits of both, for readers, then the 32 bytes of both in base64. It returns false if one
// of them is not an id, see [IsID].
func AF(iface, afu string) (name string, ok bool) {
	i, a := idBytes(iface), idBytes(afu)
	if i == nil || a == nil {
		return "", false
	}
	return prefixAF + iface[:3] + "." + afu[:3] + "." + base64.RawURLEncoding.EncodeToString(slices.Concat(i, a)), true
}

// Region returns the name of the resource for the cards of an interface, without the domain. It
// returns false if iface is not an id, see [IsID].
func Region(iface string) (name string, ok bool) {
	if !IsID(iface) {
		return "", false
	}
	return prefixRegion + iface, true
}

// IsID reports whether s is an id of an AFU or of an interface: 32 hexadecimal digits in lower
// case. Values from hardware are checked with it before they become part of a resource name.
func IsID(s string) bool { return idBytes(s) != nil }

// idBytes returns the 16 bytes of an id, or nil if s is not an id.
func idBytes(s string) []byte {
	b, err := hex.DecodeString(s)
	if err != nil || len(b) != 16 || strings.ToLower(s) != s {
		return nil
	}
	return b
}

// Shell returns the name of the resource for the cards with a shell of AMD, with the domain: amd.com/VBNV-TIMESTAMP. A
// character of vbnv that Kubernetes does not allow in names becomes _. Shell returns false if there is no such name: a
// part is empty, the name does not begin with a letter or digit, the timestamp is not a decimal number, or the name is
// too long. A name is never shortened, because two shells could then have the same name.
func Shell(vbnv, timestamp string) (name string, ok bool) {
	if vbnv == "" || !isDecimal(timestamp) {
		return "", false
	}
	name = shellDomain + strings.Map(func(r rune) rune {
		if strings.ContainsRune("-_.", r) || isAlphanumeric(r) {
			return r
		}
		return '_'
	}, vbnv) + "-" + timestamp
	if Validate(name) != nil {
		return "", false
	}
	return name, true
}

const shellDomain = "amd.com/"

// IsShell reports whether a resource name has the form of the names that Shell returns.
func IsShell(resource string) bool {
	name, ok := strings.CutPrefix(resource, shellDomain)
	i := strings.LastIndexByte(name, '-')
	return ok && i > 0 && isDecimal(name[i+1:])
}

func isDecimal(s string) bool {
	return s != "" && strings.Trim(s, "0123456789") == ""
}

func isAlphanumeric(r rune) bool {
	return '0' <= r && r <= '9' || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z'
}

// Ours reports whether a name, without the domain, has the form of the names that AF and Region return.
func Ours(name string) bool { return OfMode("af", name) || OfMode("region", name) }

// OfMode reports whether a name, without the domain, has the form of the names of a mode.
func OfMode(mode, name string) bool {
	switch mode {
	case "af":
		return strings.HasPrefix(name, prefixAF)
	case "region", "regiondevel":
		return strings.HasPrefix(name, prefixRegion)
	}
	return false
}
