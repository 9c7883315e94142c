package timeline

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
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

// appendVisible appends text so that a terminal takes none of it for a command:
// what cannot be printed, or turns the direction of writing, is escaped as in Go.
func appendVisible(b, text []byte) []byte {
	for i := 0; i < len(text); {
		if c := text[i]; ' ' <= c && c < 0x7f {
			b = append(b, c)
			i++
			continue
		}
		r, n := utf8.DecodeRune(text[i:])
		switch {
		case r == '\n':
			b = append(b, "; "...) // the daemon joins errors by lines
		case r == utf8.RuneError && n <= 1 || !strconv.IsPrint(r):
			quoted := strconv.AppendQuoteToASCII(nil, string(text[i:i+n]))
			b = append(b, quoted[1:len(quoted)-1]...)
		default:
			b = append(b, text[i:i+n]...)
		}
		i += n
	}
	return b
}

// appendHarmless appends valid JSON with the same meaning, in which no control
// character stands as itself. Such stand in strings only, and so do bytes that
// are no UTF-8.
func appendHarmless(b, data []byte) []byte {
	for i := 0; i < len(data); {
		if c := data[i]; ' ' <= c && c < 0x7f {
			b = append(b, c)
			i++
			continue
		}
		r, n := utf8.DecodeRune(data[i:])
		switch {
		case r == utf8.RuneError && n <= 1:
			b = append(b, `\ufffd`...)
		case r == '\t' || r == '\r' || r == '\n': // between values
			b = append(b, ' ')
		case !strconv.IsPrint(r):
			for _, unit := range utf16.AppendRune(nil, r) {
				b = fmt.Appendf(b, `\u%04x`, unit)
			}
		default:
			b = append(b, data[i:i+n]...)
		}
		i += n
	}
	return b
}
