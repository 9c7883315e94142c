package timeline

import (
	"maps"
	"slices"
)

// ParseObject parses one object into its members: key -> value as it stands, a
// text with its quotes.
func ParseObject(data []byte) (map[string]string, bool) {
	members, ok := parseObject(data, nil)
	if !ok {
		return nil, false
	}
	values := make(map[string]string)
	for _, m := range members {
		value := string(m.value)
		if m.kind == text {
			value = `"` + value + `"`
		}
		values[string(m.key)] = value
	}
	return values, true
}

// The bounds that tests go up to.
const (
	MaxLine    = maxLine
	MaxMembers = maxMembers
	MaxDepth   = maxDepth
	MaxDevices = maxDevices
)

// Words are the names of the events that have words.
func Words() []string { return slices.Sorted(maps.Keys(words)) }
