package timeline

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.uber.org/zap/zapcore"

	"b-com.com/accelerator-device-plugin/internal/terminal"
)

// printer formats lines as text.
type printer struct {
	colour bool
	origin int // width of the widest origin so far
}

// subjectWidth is the width of the subject column, which is wide enough for device ids and the default resource name.
const subjectWidth = len("b-com.com/accelerator")

// line formats a line: the time, the subject, a mark if it is a warning or an error, and the event's text.
func (p *printer) line(l *line) string {
	origin, mark := "", " "
	subject := terminal.Escape(cmp.Or(l.text("device"), l.text("resource"), l.text("pci"), "-"))
	if l.origin != "" {
		p.origin = max(p.origin, len(l.origin))
		origin = fmt.Sprintf("%-*s  ", p.origin, l.origin)
	}
	switch {
	case l.level >= zapcore.ErrorLevel:
		mark = p.paint(terminal.Red, "!")
	case l.level == zapcore.WarnLevel:
		mark = p.paint(terminal.Yellow, "!")
	}
	text := ""
	if phrase := phrases[l.event]; phrase != nil {
		text = p.phrase(l, phrase)
	} else {
		text = p.fields(l)
	}
	return fmt.Sprintf("%s  %s%-*s %s %s\n", l.time.Format("2006-01-02T15:04:05.000Z07:00"), origin, subjectWidth, subject, mark, text)
}

var placeholder = regexp.MustCompile(`\{\w+\}`)

// phrase returns the text for an event that has an entry in phrases: that entry, filled in from the line.
func (p *printer) phrase(l *line, phrase []string) string {
	var text strings.Builder
	var asides []string
	for i, part := range phrase {
		whole := true
		part = placeholder.ReplaceAllStringFunc(part, func(key string) string {
			value := p.value(l, key[1:len(key)-1])
			whole = whole && (value != "" || key == "{list}")
			return cmp.Or(value, "none")
		})
		aside, isAside := strings.CutPrefix(part, "(")
		switch {
		case i > 0 && !whole:
		case isAside:
			asides = append(asides, aside)
		case i == 0 && part == gone:
			text.WriteString(p.paint(terminal.Red, gone))
		default:
			text.WriteString(part)
		}
	}
	if l.steps != "" {
		asides = append(asides, "steps: "+terminal.Escape(l.steps))
	}
	return text.String() + parentheses(asides)
}

// fields returns the text for an event without a phrase: the message, the error, and the remaining fields in
// parentheses.
func (p *printer) fields(l *line) string {
	text := p.value(l, "message")
	if err := p.value(l, "error"); err != "" {
		text += ": " + err
	}
	var asides []string
	for _, key := range slices.Sorted(maps.Keys(l.fields)) {
		switch key {
		case "time", "level", "message", "event", "logger", "error", "device", "resource", "pci":
			continue
		}
		if value := p.value(l, key); value != "" {
			asides = append(asides, terminal.Escape(strings.TrimSuffix(key, "_ms"))+" "+value)
		}
	}
	return text + parentheses(asides)
}

// parentheses returns asides in parentheses, or "" if there are none.
func parentheses(asides []string) string {
	if len(asides) == 0 {
		return ""
	}
	return " (" + strings.Join(asides, "; ") + ")"
}

// value returns a field's value as text, or "" if there is none. The change and list keys stand for several fields; see
// phrases.
func (p *printer) value(l *line, key string) string {
	switch key {
	case "change":
		if old := p.value(l, "old"); old != "" && old == p.value(l, "new") {
			return "still " + old
		}
		return cmp.Or(p.value(l, "old"), "none") + " → " + cmp.Or(p.value(l, "new"), "none")
	case "list":
		return list(l)
	}
	switch v := l.fields[key].(type) {
	case nil:
		return ""
	case string:
		return p.paint(stateColours[v], shortened(v))
	case float64:
		if !strings.HasSuffix(key, "_ms") {
			return strconv.FormatFloat(v, 'f', -1, 64)
		}
		if d := l.duration(key); d >= 10*time.Microsecond {
			return durationText(d)
		}
		return ""
	case []any:
		return shortened(strings.Join(l.texts(key), ", "))
	default:
		text, _ := json.Marshal(v) // it was parsed from JSON
		return shortened(string(text))
	}
}

// list returns the devices in a list.sent or slices.published line, grouped by health. The devices field contains the
// devices that have changed since the previous list or publication; those that aren't also in the unhealthy or gone
// field are healthy. For a stream's first list, the devices field is empty and the unhealthy field contains all
// unhealthy devices.
func list(l *line) string {
	devices, unhealthy, off := l.texts("devices"), l.texts("unhealthy"), l.texts("gone")
	if len(devices) == 0 {
		text := ": complete"
		if len(unhealthy) > 0 {
			text += ", unhealthy: " + shortened(strings.Join(unhealthy, ", "))
		}
		return text
	}
	groups := map[string][]string{}
	for _, id := range devices {
		group := " healthy"
		switch {
		case isMore(id): // the omitted devices may belong to any group
			group = ""
		case slices.Contains(off, id):
			group = " off the list"
		case slices.Contains(unhealthy, id):
			group = " unhealthy"
		}
		groups[group] = append(groups[group], id)
	}
	var texts []string
	for _, group := range []string{" unhealthy", " off the list", " healthy", ""} {
		if ids := groups[group]; ids != nil {
			texts = append(texts, shortened(strings.Join(ids, ", "))+group)
		}
	}
	return ": " + strings.Join(texts, "; ")
}

// maxText is the maximum number of bytes shown of a value. Without this limit, errors from a card that is being pulled
// would fill the screen. -o json prints the whole value.
const maxText = 160

// shortened escapes a string from the log and truncates it to maxText.
func shortened(text string) string {
	if len(text) <= maxText {
		return terminal.Escape(text)
	}
	end := maxText
	for end > maxText-4 && text[end]&0xc0 == 0x80 { // inside a character
		end--
	}
	return terminal.Escape(text[:end]) + "…"
}

// stateColours contains the colours for device states.
var stateColours = map[string]string{
	"healthy": terminal.Green, "degraded": terminal.Yellow, "unhealthy": terminal.Red, gone: terminal.Red,
}

func (p *printer) paint(colour, text string) string {
	if !p.colour || colour == "" {
		return text
	}
	return colour + text + terminal.Plain
}

// durationText formats a duration with about three digits: 0.28 ms, 484 ms, 2.13 s, 4m12s, 51h3m0s. Anything below a
// second is in ms, so that durations are easy to compare.
func durationText(d time.Duration) string {
	value, unit := float64(d)/1e6, " ms"
	switch {
	case d >= time.Minute:
		return d.Round(time.Second).String()
	case d >= time.Second:
		value, unit = d.Seconds(), " s"
	}
	precision := 2
	for limit := 10.0; precision > 0 && value >= limit; limit *= 10 {
		precision--
	}
	return strconv.FormatFloat(value, 'f', precision, 64) + unit
}
