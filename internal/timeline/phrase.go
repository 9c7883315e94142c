package timeline

import (
	"strconv"
	"time"
	"unicode/utf8"

	"b-com.com/accelerator-device-plugin/internal/terminal"
)

// phrase writes a line for people. Its buffer is used again for the next.
type phrase struct {
	buf    []byte
	colour bool
	origin int // width of the widest so far
	tail   bool
}

// subjectWidth holds an id, and the name of the usual resource.
const subjectWidth = len("b-com.com/accelerator")

// line writes when, who, whether it is trouble, and what.
func (p *phrase) line(l *line) []byte {
	p.buf, p.tail = p.buf[:0], false
	p.buf = l.time.AppendFormat(p.buf, "2006-01-02T15:04:05.000Z07:00")
	p.buf = append(p.buf, "  "...)
	if len(l.origin) > 0 {
		p.origin = max(p.origin, min(len(l.origin), 63))
		p.column(l.origin, p.origin)
		p.buf = append(p.buf, "  "...)
	}
	p.column(subject(l), subjectWidth)
	switch {
	case l.level >= Error:
		p.buf = p.paint(p.buf, red, " ! ")
	case l.level == Warn:
		p.buf = p.paint(p.buf, yellow, " ! ")
	default:
		p.buf = append(p.buf, "   "...)
	}
	if say := words[string(l.event)]; say != nil {
		say(p, l)
	} else {
		inFields(p, l)
	}
	if p.tail {
		p.buf = append(p.buf, ')')
	}
	p.buf = append(p.buf, '\n')
	return p.buf
}

// subject is who a line is about.
func subject(l *line) []byte {
	for _, key := range []string{"device", "resource", "pci"} {
		if name := l.text(key); len(name) > 0 {
			return name
		}
	}
	return []byte("-")
}

// column writes text padded to a width in bytes, which for names is one in columns.
func (p *phrase) column(text []byte, width int) {
	begin := len(p.buf)
	p.buf = terminal.AppendText(p.buf, text)
	for len(p.buf)-begin < width {
		p.buf = append(p.buf, ' ')
	}
}

// say writes words of our own.
func (p *phrase) say(words string) { p.buf = append(p.buf, words...) }

// field writes words and the text of a field, or nothing where it is empty.
func (p *phrase) field(before string, l *line, key, after string) {
	if value := l.text(key); len(value) > 0 {
		p.say(before)
		p.short(value)
		p.say(after)
	}
}

// maxText is how much of a text is shown, in bytes: the errors of a card that is
// being pulled out fill a screen. All of it is in the line, with -o json.
const maxText = 160

func (p *phrase) short(value []byte) {
	if len(value) <= maxText {
		p.buf = terminal.AppendText(p.buf, value)
		return
	}
	end := maxText
	for end > 0 && !utf8.RuneStart(value[end]) {
		end--
	}
	p.buf = append(terminal.AppendText(p.buf, value[:end]), "…"...)
}

// names writes words and the texts of a list, or nothing where it is empty.
func (p *phrase) names(before string, l *line, key string) bool {
	first := true
	l.each(key, func(name []byte) {
		if first {
			p.say(before)
		} else {
			p.say(", ")
		}
		first = false
		p.buf = terminal.AppendText(p.buf, name)
	})
	return !first
}

// health writes the state that a field names.
func (p *phrase) health(l *line, key string) {
	state := l.text(key)
	colour := red
	switch string(state) {
	case "healthy":
		colour = green
	case "degraded":
		colour = yellow
	}
	p.buf = p.paint(p.buf, colour, string(terminal.AppendText(nil, state)))
}

// aside writes, in parentheses at the end of the line, words and how long it took.
func (p *phrase) aside(before string, l *line, key, after string) {
	if ms, ok := l.number(key); ok {
		p.open()
		p.say(before)
		p.buf = appendDuration(p.buf, fromMilliseconds(ms))
		p.say(after)
	}
}

func (p *phrase) open() {
	if p.tail {
		p.say("; ")
	} else {
		p.say(" (")
	}
	p.tail = true
}

// number writes a whole number, or nothing where there is none.
func (p *phrase) number(l *line, key, one, many string) bool {
	n, ok := l.number(key)
	if !ok {
		return false
	}
	p.buf = strconv.AppendFloat(p.buf, n, 'f', -1, 64)
	if n == 1 {
		p.say(one)
	} else {
		p.say(many)
	}
	return true
}

const (
	red    = "\x1b[31m"
	green  = "\x1b[32m"
	yellow = "\x1b[33m"
	plain  = "\x1b[0m"
)

func (p *phrase) paint(b []byte, colour, text string) []byte {
	if !p.colour {
		return append(b, text...)
	}
	return append(append(append(b, colour...), text...), plain...)
}

// fromMilliseconds is a duration of a field, within what a duration can hold.
func fromMilliseconds(ms float64) time.Duration {
	return time.Duration(max(0, min(ms, float64(200*365*24*time.Hour/time.Millisecond))) * float64(time.Millisecond))
}

// appendDuration writes a duration with as many digits as are worth reading:
// 0.28 ms, 484 ms, 2.13 s, 4m12s, 3h05m, 2d03h.
func appendDuration(b []byte, d time.Duration) []byte {
	two := func(n time.Duration, unit byte) {
		b = append(b, byte('0'+n/10), byte('0'+n%10), unit)
	}
	whole := func(n time.Duration, unit byte) { b = append(strconv.AppendInt(b, int64(n), 10), unit) }
	digits := func(f float64, unit string) {
		precision := 2
		for limit := 10.0; precision > 0 && f >= limit; limit *= 10 {
			precision--
		}
		b = append(strconv.AppendFloat(b, f, 'f', precision, 64), unit...)
	}
	switch day := 24 * time.Hour; {
	case d < time.Second:
		digits(float64(d)/1e6, " ms")
	case d < time.Minute:
		digits(d.Seconds(), " s")
	case d < time.Hour:
		whole(d/time.Minute, 'm')
		two(d%time.Minute/time.Second, 's')
	case d < day:
		whole(d/time.Hour, 'h')
		two(d%time.Hour/time.Minute, 'm')
	default:
		whole(d/day, 'd')
		two(d%day/time.Hour, 'h')
	}
	return b
}
