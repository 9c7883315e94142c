package timeline

import (
	"fmt"
	"strings"
	"time"

	"b-com.com/accelerator-device-plugin/internal/terminal"
)

// tally counts what was read.
type tally struct {
	read                                             int // lines of all kinds
	ours, wanted, others, console, broken, backwards int

	firstBroken, firstBackwards string
	newest                      map[string]time.Time // by origin
}

// maxOrigins is how many pods or hosts are told apart.
const maxOrigins = 1000

// shown is how much of a broken line is quoted, in bytes.
const shown = 60

// broke counts a broken line and keeps the first.
func (t *tally) broke(r *Reader, why string, data []byte) {
	if t.broken++; t.broken > 1 {
		return
	}
	t.firstBroken = fmt.Sprintf("line %d of %s: %s", r.number, r.file, why)
	if len(data) > shown {
		data = append(append([]byte(nil), data[:shown]...), "…"...)
	}
	if len(data) > 0 {
		t.firstBroken += ": " + string(terminal.AppendText(nil, data))
	}
}

// disorder is how far a line may lie behind the one before it: goroutines that
// write at the same time do not write in order.
const disorder = 100 * time.Millisecond

// clock notices a clock that was set back, or files that come in the wrong order.
func (t *tally) clock(r *Reader, l *line) {
	last, known := t.newest[string(l.origin)]
	if back := last.Sub(l.time); known && back > disorder {
		if t.backwards++; t.backwards == 1 {
			t.firstBackwards = fmt.Sprintf("by %s at line %d of %s", appendDuration(nil, back), r.number, r.file)
		}
	}
	if known || len(t.newest) < maxOrigins {
		t.newest[string(l.origin)] = l.time
	}
}

func (t *tally) notes() (notes []string) {
	var passed []string
	if t.others > 0 {
		passed = append(passed, count(t.others, "line of others", "lines of others"))
	}
	if t.broken > 0 {
		passed = append(passed, fmt.Sprintf("%d broken (first: %s)", t.broken, t.firstBroken))
	}
	if len(passed) > 0 {
		notes = append(notes, "passed over "+strings.Join(passed, ", "))
	}
	if t.console > 0 {
		notes = append(notes, count(t.console, "line is", "lines are")+
			" of --log-format console, which is for people: serve with json, to have it read here")
	}
	if t.backwards > 0 {
		times := count(t.backwards, "time", "times")
		notes = append(notes, fmt.Sprintf("time went backwards %s (first: %s): lines are printed as they come", times, t.firstBackwards))
	}
	return notes
}

func count(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}
