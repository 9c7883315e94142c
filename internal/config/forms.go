package config

import (
	"regexp"
	"slices"
	"strings"
)

// form is how a value of [offer.Match] is written. What stands in the file counts,
// not what YAML takes it for: 8086 is four digits, in quotes or not.
type form struct {
	want  string                      // of a refusal
	parse func(string) (string, bool) // to the one spelling that devices have
}

var (
	fourDigitForm = regexp.MustCompile(`^[0-9A-Fa-f]{4}$`)
	guidForm      = regexp.MustCompile(`^[0-9A-Fa-f]{8}(-?)[0-9A-Fa-f]{4}(-?)[0-9A-Fa-f]{4}(-?)[0-9A-Fa-f]{4}(-?)[0-9A-Fa-f]{12}$`)
)

// fourDigits are those of a PCI vendor or device. A program that rewrote the file
// may have taken 0010 or 1e10 for a number, hence the quotes.
var fourDigits = form{`four hexadecimal digits in quotes, without 0x, such as "09c4"`, func(s string) (string, bool) {
	return strings.ToLower(s), fourDigitForm.MatchString(s)
}}

// guid is the id of an AFU or an interface: 32 digits, or the same with all four
// dashes.
var guid = form{"32 hexadecimal digits, such as d8424dc4a4a3c413f89e433683f9040b", func(s string) (string, bool) {
	m := guidForm.FindStringSubmatch(s)
	if m == nil || slices.ContainsFunc(m[2:], func(dash string) bool { return dash != m[1] }) {
		return "", false
	}
	return strings.ToLower(strings.ReplaceAll(s, "-", "")), true
}}

// cardAddress is that of a PCI device, in the form of device ids.
var cardAddress = form{"the PCI address of a card, such as 3b:00.0 or 0001:3b:00.0", func(s string) (string, bool) {
	address, err := parseExcluded(s)
	return address, err == nil && !strings.Contains(address, "-p")
}}

// word is one of a few.
func word(allowed []string) form {
	return form{"one of " + strings.Join(allowed, ", "), func(s string) (string, bool) { return s, slices.Contains(allowed, s) }}
}
