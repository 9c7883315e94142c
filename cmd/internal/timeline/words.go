package timeline

import (
	"cmp"
	"encoding/json"
	"maps"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"go.uber.org/zap/zapcore"

	"b-com.com/accelerator-device-plugin/internal/logevent"
	"b-com.com/accelerator-device-plugin/internal/terminal"
)

// printer formats lines as text. It reuses its buffer for the next line.
type printer struct {
	buf    []byte
	colour bool
	origin int // width of the widest origin so far
}

// subjectWidth is the width of the subject's column. Ids and the default resource name fit.
const subjectWidth = len("b-com.com/accelerator")

// line returns a line as text: the time, the subject, a mark for a warning or an error, and the text of
// the event. It is valid until the next call.
func (p *printer) line(l *line) []byte {
	p.buf = append(l.time.AppendFormat(p.buf[:0], "2006-01-02T15:04:05.000Z07:00"), "  "...)
	if l.origin != "" {
		p.origin = max(p.origin, min(len(l.origin), 63))
		p.column(l.origin, p.origin)
		p.buf = append(p.buf, "  "...)
	}
	p.column(cmp.Or(l.text("device"), l.text("resource"), l.text("pci"), "-"), subjectWidth)
	switch {
	case l.level >= zapcore.ErrorLevel:
		p.paint(terminal.Red, " ! ")
	case l.level == zapcore.WarnLevel:
		p.paint(terminal.Yellow, " ! ")
	default:
		p.buf = append(p.buf, "   "...)
	}
	if phrase := logevent.Phrase(l.event); phrase != "" {
		p.phrase(l, phrase)
	} else {
		p.unknown(l)
	}
	p.buf = append(p.buf, '\n')
	return p.buf
}

// column writes text padded to a width in bytes. Names are ASCII, so that is their width.
func (p *printer) column(text string, width int) {
	begin := len(p.buf)
	p.text(text)
	for len(p.buf)-begin < width {
		p.buf = append(p.buf, ' ')
	}
}

// phrase writes the text of an event. See logevent.Phrase for its form.
func (p *printer) phrase(l *line, phrase string) {
	text, asides, _ := strings.Cut(phrase, " | ")
	for _, state := range []string{"gone", "held"} {
		if rest, ok := strings.CutPrefix(text, state); ok {
			p.paint(terminal.Red, state)
			text = rest
		}
	}
	p.expand(l, text)
	before, after := " (", ""
	for aside := range strings.SplitSeq(asides, " | ") {
		begin := len(p.buf)
		p.buf = append(p.buf, before...)
		if aside == "" || !p.expand(l, aside) {
			p.buf = p.buf[:begin]
			continue
		}
		before, after = "; ", ")"
	}
	if l.aside != "" {
		p.buf, after = append(p.buf, before...), ")"
		p.text(l.aside)
	}
	p.buf = append(p.buf, after...)
}

// expand writes a part of a phrase. It reports whether all fields outside of brackets have a value.
func (p *printer) expand(l *line, text string) (whole bool) {
	whole = true
	for {
		i := strings.IndexAny(text, "{[")
		if i < 0 {
			p.buf = append(p.buf, text...)
			return whole
		}
		p.buf = append(p.buf, text[:i]...)
		if text[i] == '[' {
			optional, rest, _ := strings.Cut(text[i+1:], "]")
			if begin := len(p.buf); !p.expand(l, optional) {
				p.buf = p.buf[:begin]
			}
			text = rest
			continue
		}
		field, rest, _ := strings.Cut(text[i+1:], "}")
		if !p.field(l, field) {
			p.buf = append(p.buf, "none"...)
			whole = false
		}
		text = rest
	}
}

// field writes the value of a field. It reports whether there is a value that is not empty.
func (p *printer) field(l *line, key string) bool {
	key, noun, counted := strings.Cut(key, " ")
	switch key {
	case "change":
		if old := l.text("old"); old != "" && old == l.text("new") {
			p.buf = append(p.buf, "still "...)
		} else {
			p.expand(l, "{old} → ")
		}
		p.expand(l, "{new}") // writes "none" if it is empty, as for old
		return true
	case "list":
		p.list(l)
		return true
	}
	switch v := l.fields[key].(type) {
	case string:
		if colour := stateColours[v]; colour != "" {
			p.paint(colour, v)
		} else {
			p.text(v)
		}
		return v != ""
	case float64:
		if strings.HasSuffix(key, "_ms") {
			p.buf = appendDuration(p.buf, l.duration(key))
			return v >= 0.01
		}
		p.buf = strconv.AppendFloat(p.buf, v, 'f', -1, 64)
		if counted {
			p.buf = append(append(p.buf, ' '), noun...)
			if v != 1 {
				p.buf = append(p.buf, 's')
			}
		}
		return true
	case []any:
		return p.names("", l.texts(key))
	}
	return false
}

// list writes the devices in a list.sent or slices.published line, by their health. The field devices
// has the devices that changed since the previous list of the stream, or in the slices. Those that are
// not also in the field unhealthy or gone are healthy. For the first list of a stream, devices is empty,
// and unhealthy has all unhealthy devices.
func (p *printer) list(l *line) {
	const bad, off, well, more = 0, 1, 2, 3
	group := map[string]int{}
	for _, id := range l.texts("unhealthy") {
		group[id] = bad
	}
	for _, id := range l.texts("gone") {
		group[id] = off
	}
	var ids [4][]string
	for _, id := range l.texts("devices") {
		g, known := group[id]
		switch {
		case isMore(id): // of any group
			g = more
		case !known:
			g = well
		}
		ids[g] = append(ids[g], id)
	}
	before := ": "
	for g, as := range []string{" unhealthy", " off the list", " healthy", ""} {
		if p.names(before, ids[g]) {
			p.buf = append(p.buf, as...)
			before = "; "
		}
	}
	if before == ": " {
		p.buf = append(p.buf, ": complete"...)
		p.names(", unhealthy: ", l.texts("unhealthy"))
	}
}

// names writes before and a list of names, if there are any. It reports whether there are.
func (p *printer) names(before string, names []string) bool {
	for i, name := range names {
		if i > 0 {
			before = ", "
		}
		p.buf = append(p.buf, before...)
		p.text(name)
	}
	return len(names) > 0
}

// unknown writes the message and the fields of an event without a phrase. A newer daemon has logged it.
func (p *printer) unknown(l *line) {
	rest := maps.Clone(l.fields)
	for _, f := range logevent.Common() {
		delete(rest, f.Key)
	}
	data, _ := json.Marshal(rest) // it was parsed from JSON
	p.text(l.text("message"))
	p.text(" [" + l.event + "] ")
	p.text(string(data))
}

// maxText is the number of bytes that are shown of a text. The errors of a card while it is pulled would
// fill a screen. -o json has the whole text.
const maxText = 160

// text writes a text of the log. It escapes control characters.
func (p *printer) text(text string) {
	if len(text) <= maxText {
		p.buf = terminal.AppendText(p.buf, []byte(text))
		return
	}
	end := maxText
	for end > 0 && !utf8.RuneStart(text[end]) {
		end--
	}
	p.buf = append(terminal.AppendText(p.buf, []byte(text[:end])), "…"...)
}

// stateColours are the colours of the states of devices.
var stateColours = map[string]string{
	"healthy": terminal.Green, "degraded": terminal.Yellow, "unhealthy": terminal.Red, gone: terminal.Red,
}

func (p *printer) paint(colour, text string) {
	if p.colour && colour != "" {
		text = colour + text + terminal.Plain
	}
	p.buf = append(p.buf, text...)
}

// count returns a number with its noun, in the plural unless it is 1.
func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return strconv.Itoa(n) + " " + noun + "s"
}

// appendDuration writes a duration with about three digits: 0.28 ms, 484 ms, 2.13 s, 4m12s,
// 51h3m0s. All durations below a second are in ms, so that they are easy to compare.
func appendDuration(b []byte, d time.Duration) []byte {
	if d >= time.Minute {
		return append(b, d.Round(time.Second).String()...)
	}
	f, unit := float64(d)/1e6, " ms"
	if d >= time.Second {
		f, unit = d.Seconds(), " s"
	}
	precision := 2
	for limit := 10.0; precision > 0 && f >= limit; limit *= 10 {
		precision--
	}
	return append(strconv.AppendFloat(b, f, 'f', precision, 64), unit...)
}
