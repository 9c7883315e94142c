package redact

import (
	"maps"
	"slices"
)

// Flags returns the flags of all keys of settings, sorted.
func Flags() (all []string) {
	for key := range maps.Keys(settings) {
		all = append(all, dashes(key))
	}
	slices.Sort(all)
	return all
}
