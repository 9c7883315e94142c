package logevent_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"b-com.com/accelerator-device-plugin/internal/logevent"
	"b-com.com/accelerator-device-plugin/test/golden"
)

// docs/log-events.md has the catalogue as tables.
func TestDocumentation(t *testing.T) {
	const file = "../../docs/log-events.md"
	for name, table := range map[string]string{"events": events(), "fields": fields()} {
		begin := fmt.Sprintf("<!-- %s: written by go test ./internal/logevent -update -->\n", name)
		golden.Section(t, file, begin, fmt.Sprintf("<!-- end of %s -->\n", name), table)
	}
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
