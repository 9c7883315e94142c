// Package terminal prints text and tables. It escapes untrusted text so that it can't control the terminal. It owns no
// state.
package terminal

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strconv"
	"text/tabwriter"
	"unicode/utf16"
	"unicode/utf8"
)

// Is reports whether w is a character device, such as a terminal.
func Is(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// Escape returns text, escaping the same characters as [AppendText].
func Escape(text string) string {
	return string(AppendText(nil, []byte(text)))
}

// AppendText appends text to b. Characters that aren't printable or that change the writing direction are escaped the
// same way as in a Go string. A line break becomes "; ".
func AppendText(b, text []byte) []byte {
	for i := 0; i < len(text); {
		if c := text[i]; ' ' <= c && c < 0x7f {
			b = append(b, c)
			i++
			continue
		}
		r, n := utf8.DecodeRune(text[i:])
		switch {
		case r == '\n':
			b = append(b, "; "...) // errors.Join separates errors with line breaks
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

// AppendJSON appends data, which must be valid JSON, to b as equivalent JSON on a single line. The characters that
// [AppendText] escapes are written as JSON escapes. This is safe because in valid JSON, such characters, and bytes that
// aren't UTF-8, only occur inside strings.
func AppendJSON(b, data []byte) []byte {
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

// WriteJSON writes v to w as indented JSON. Unlike encoding/json, it also escapes control characters from U+007F up.
func WriteJSON(w io.Writer, v any) error {
	text, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	var b []byte
	for line := range bytes.SplitSeq(text, []byte{'\n'}) {
		b = append(AppendJSON(b, line), '\n')
	}
	_, err = w.Write(b)
	return err
}

// ANSI escape codes.
const (
	Red    = "\x1b[31m"
	Green  = "\x1b[32m"
	Yellow = "\x1b[33m"
	Usual  = "\x1b[39m" // the terminal's default colour
	Plain  = "\x1b[0m"  // ends a colour
)

// Table collects lines and prints them with aligned columns when Flush is called.
type Table struct {
	*tabwriter.Writer
	// Colour returns a cell's colour, such as [Red], or "" in a column without colours. If one cell in a column has a
	// colour, all of them must, because tabwriter counts the escape codes as text. If Colour is nil, there are no
	// colours.
	Colour func(column int, cell string) string
}

// NewTable returns a table without colours that prints to w.
func NewTable(w io.Writer) Table { return Table{Writer: tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)} }

// Line adds a line. It escapes the cells, and shows empty ones as "-".
func (t Table) Line(cells ...string) {
	for i, cell := range cells {
		text := cmp.Or(Escape(cell), "-")
		if t.Colour != nil {
			if colour := t.Colour(i, cell); colour != "" {
				text = colour + text + Plain
			}
		}
		if i > 0 {
			text = "\t" + text
		}
		fmt.Fprint(t, text)
	}
	fmt.Fprintln(t)
}
