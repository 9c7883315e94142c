package timeline

import (
	"bytes"
	"encoding/json"
	"slices"
)

// unquote is the text that a string stands for, without its quotes. It is the
// same bytes where nothing is escaped.
func unquote(value []byte) []byte {
	if bytes.IndexByte(value, '\\') < 0 {
		return value
	}
	var out string
	if json.Unmarshal(slices.Concat([]byte{'"'}, value, []byte{'"'}), &out) != nil {
		return value
	}
	return []byte(out)
}
