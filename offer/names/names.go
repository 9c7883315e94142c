// Package names generates the resource names that Intel's and Xilinx's FPGA plugins used, and validates names.
//
// It is pure and doesn't import any other package of this project. The daemon names its resources with it, and the
// operator uses it to find the resource names for functions that pods request.
package names

import (
	"encoding/base64"
	"encoding/hex"
	"slices"
	"strings"
)

// The default resource in single and pool modes, and the default domain of resource names in the other modes.
const (
	DefaultResource = "b-com.com/accelerator"
	DefaultDomain   = "fpga.intel.com"
)

// Name prefixes.
const (
	prefixAF     = "af-"
	prefixRegion = "region-"
)

// AF returns the name of the resource for an AFU on an interface, without the domain. The name consists of the first
// three digits of each id, for human readers, followed by both ids (32 bytes) in base64. AF returns false if iface or
// afu isn't an id; see [IsID].
func AF(iface, afu string) (name string, ok bool) {
	i, a := idBytes(iface), idBytes(afu)
	if i == nil || a == nil {
		return "", false
	}
	return prefixAF + iface[:3] + "." + afu[:3] + "." + base64.RawURLEncoding.EncodeToString(slices.Concat(i, a)), true
}

// Region returns the name of the resource for cards with the interface iface, without the domain. It returns false if
// iface isn't an id; see [IsID].
func Region(iface string) (name string, ok bool) {
	if !IsID(iface) {
		return "", false
	}
	return prefixRegion + iface, true
}

// IsID reports whether s is an AFU or interface id, that is, 32 lower-case hexadecimal digits. Use it to check a value
// from hardware before it becomes part of a resource name.
func IsID(s string) bool { return idBytes(s) != nil }

// idBytes returns the 16 bytes of an id, or nil if s isn't an id.
func idBytes(s string) []byte {
	b, err := hex.DecodeString(s)
	if err != nil || len(b) != 16 || strings.ToLower(s) != s {
		return nil
	}
	return b
}

// Shell returns the name of the resource for cards with an AMD shell, including the domain: amd.com/VBNV-TIMESTAMP.
// Characters in vbnv that Kubernetes doesn't allow in names become _. Shell returns false if a part is empty, the name
// doesn't begin with a letter or digit, the timestamp isn't a decimal number, or the name is too long. Names are never
// shortened, because two shells might end up with the same name.
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

// IsShell reports whether a resource name looks like one that [Shell] returns.
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

// Ours reports whether a name, without the domain, looks like one that [AF] or [Region] returns.
func Ours(name string) bool { return OfMode("af", name) || OfMode("region", name) }

// OfMode reports whether a name, without the domain, looks like one of the names that mode gives to resources.
func OfMode(mode, name string) bool {
	switch mode {
	case "af":
		return strings.HasPrefix(name, prefixAF)
	case "region", "regiondevel":
		return strings.HasPrefix(name, prefixRegion)
	}
	return false
}
