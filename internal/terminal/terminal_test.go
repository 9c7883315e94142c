package terminal_test

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"b-com.com/accelerator-device-plugin/internal/terminal"
	"b-com.com/accelerator-device-plugin/test/compare"
	"b-com.com/accelerator-device-plugin/test/must"
)

func TestEscape(t *testing.T) {
	for _, test := range []struct{ name, text, want string }{
		{"printable", "3b:00.0 café 日本", "3b:00.0 café 日本"},
		{"colour", "\x1b[31mred", `\x1b[31mred`},
		{"title", "\x1b]0;title\a", `\x1b]0;title\a`},
		{"C1 in UTF-8", "\u009b2J\u0085", `\u009b2J\u0085`},
		{"C1 as a byte", "\x9b2J", `\x9b2J`},
		{"other direction", "\u202egpj", `\u202egpj`},
		{"line separator", "a\u2028b", `a\u2028b`},
		{"line breaks", "a\nb\r\x00\x7f\t", `a; b\r\x00\x7f\t`},
		{"cut in a character", "\xe6\x97", `\xe6\x97`},
	} {
		compare.Equal(t, fmt.Sprintf("%s: %q is escaped as", test.name, test.text), test.want, terminal.Escape(test.text))
	}
}

func harmless(s string) bool {
	return strings.IndexFunc(s, func(r rune) bool { return !strconv.IsPrint(r) }) < 0 && strings.ToValidUTF8(s, "") == s
}

func FuzzEscape(f *testing.F) {
	f.Add("3b:00.0")
	f.Add("\x1b[31m\u009b\u202e\xff\n\U000e0001")
	f.Fuzz(func(t *testing.T, text string) {
		if got := terminal.Escape(text); !harmless(got) || harmless(text) && got != text {
			t.Errorf("%q is escaped as %q, want it printable, and unchanged where it was", text, got)
		}
	})
}

func FuzzAppendJSON(f *testing.F) {
	f.Add([]byte("{\"a\": [\n\t\"\u009b\u2028\u202e\x7f\xff\U000e0001\\u001b\"]\r}"))
	f.Fuzz(func(t *testing.T, data []byte) {
		var want, got any
		if json.Unmarshal(data, &want) != nil {
			return
		}
		escaped := terminal.AppendJSON(nil, data)
		if err := json.Unmarshal(escaped, &got); err != nil || !harmless(string(escaped)) || !reflect.DeepEqual(got, want) {
			t.Errorf("%q is escaped as %q (%v), want it printable and with the same meaning", data, escaped, err)
		}
	})
}

func TestTable(t *testing.T) {
	for _, test := range []struct {
		name   string
		colour func(int, string) string
		want   string
	}{
		{"plain", nil, "ID  HEALTH      NODE\n3b  healthy     -\n5e  bad\\x1b[1m  é\n"},
		{"coloured", func(column int, cell string) string {
			return map[string]string{"HEALTH": terminal.Usual, "healthy": terminal.Green, "bad\x1b[1m": terminal.Red}[cell]
		}, "ID  \x1b[39mHEALTH\x1b[0m      NODE\n3b  \x1b[32mhealthy\x1b[0m     -\n5e  \x1b[31mbad\\x1b[1m\x1b[0m  é\n"},
	} {
		t.Run(test.name, func(t *testing.T) {
			var out strings.Builder
			table := terminal.NewTable(&out)
			table.Colour = test.colour
			table.Line("ID", "HEALTH", "NODE")
			table.Line("3b", "healthy", "")
			table.Line("5e", "bad\x1b[1m", "é")
			must.Succeed(t, table.Flush())
			if out.String() != test.want {
				t.Errorf("table:\n%q, want\n%q", out.String(), test.want)
			}
		})
	}
}
