package logevent_test

import (
	"flag"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"b-com.com/accelerator-device-plugin/internal/logevent"
	"b-com.com/accelerator-device-plugin/test/compare"
	"b-com.com/accelerator-device-plugin/test/must"
)

var update = flag.Bool("update", false, "write the generated parts of docs/log-events.md, and docs/logs.schema.json")

// docs/log-events.md has the catalogue as tables.
func TestDocumentation(t *testing.T) {
	const file = "../../docs/log-events.md"
	text := must.Value(os.ReadFile(file))(t)
	want := string(text)
	for name, table := range map[string]string{"events": events(), "fields": fields()} {
		want = between(t, want, name, table)
	}
	golden(t, file, want)
}

// golden compares a file with what it must contain, or writes it.
func golden(t *testing.T, file, want string) {
	t.Helper()
	if *update {
		must.Succeed(t, os.WriteFile(file, []byte(want), 0o644))
	}
	compare.Values(t, file+", which go test ./internal/logevent -update writes", want, string(must.Value(os.ReadFile(file))(t)))
}

// between returns text with new content between the marks of this name.
func between(t *testing.T, text, name, content string) string {
	t.Helper()
	begin := fmt.Sprintf("<!-- %s: written by go test ./internal/logevent -update -->\n", name)
	end := fmt.Sprintf("<!-- end of %s -->\n", name)
	head, rest, begun := strings.Cut(text, begin)
	_, tail, ended := strings.Cut(rest, end)
	if !begun || !ended {
		t.Fatalf("docs/log-events.md: found no marks of %s, want %s … %s", name, begin, end)
	}
	return head + begin + content + end + tail
}

// events returns the tables of events, one for each part.
func events() string {
	var b strings.Builder
	part := ""
	for _, e := range logevent.Events() {
		if e.Part != part {
			part = e.Part
			fmt.Fprintf(&b, "\n### %s\n\n| event | level | when | fields |\n|---|---|---|---|\n", part)
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", e.Name, levels(e.Levels), e.When, carries(e))
	}
	return b.String() + "\n"
}

func levels(all []logevent.Level) string {
	condition := regexp.MustCompile("^(when|with|while|at|for|once) ")
	var parts []string
	for _, l := range all {
		text := strings.ToUpper(l.String()[:1]) + l.String()[1:]
		switch {
		case l.When == "otherwise":
			text = "otherwise " + text
		case condition.MatchString(l.When + " "):
			text += " " + l.When
		case l.When != "":
			text += " (" + l.When + ")"
		}
		parts = append(parts, text)
	}
	return strings.Join(parts, "; ")
}

// carries returns the fields of an event, the optional ones in italics.
func carries(e logevent.Event) string {
	var parts []string
	if len(e.Must) > 0 {
		parts = append(parts, strings.Join(keys(e.Must), ", "))
	}
	if len(e.May) > 0 {
		parts = append(parts, "*"+strings.Join(keys(e.May), ", ")+"*")
	}
	return strings.Join(parts, ", ")
}

func keys(fields []logevent.Field) []string {
	var all []string
	for _, f := range fields {
		all = append(all, f.Key)
	}
	return all
}

func fields() string {
	var b strings.Builder
	b.WriteString("\n| field | type | meaning |\n|---|---|---|\n")
	for _, f := range append(logevent.Common(), logevent.Fields()...) {
		kind := string(f.Type)
		if f.Type == logevent.List {
			kind = "array of strings"
		}
		if f.Unit != "" {
			kind += ", " + f.Unit
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", f.Key, kind, f.Means)
	}
	return b.String() + "\n"
}
