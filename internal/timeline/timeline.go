package timeline

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap/zapcore"

	"b-com.com/accelerator-device-plugin/internal/logevent"
	"b-com.com/accelerator-device-plugin/internal/terminal"
)

// Options says what a [Reader] prints.
type Options struct {
	Filter
	JSON    bool // print lines as they were written, or the summary as an object
	Summary bool // print a summary at the end instead of lines
	All     bool // print all lines about a pull or a plug instead of folding them into one
	Colour  bool // use terminal colours
}

// maxLine is the maximum length of a line in bytes. The daemon's lines are a few hundred bytes long.
const maxLine = 1 << 20

// Reader reads logs and prints the selected lines or a summary. Create it with [New].
type Reader struct {
	Origin string // pod or host for the lines without a prefix that [Reader.Read] reads from now on; "" if not known

	o      Options
	out    *bufio.Writer // remembers its first error, which Flush returns
	words  printer
	folder folder
	total  Summary

	devices map[[2]string]*Device // by origin and id

	// Numbers of lines: from the daemon (ours), selected by the filter (wanted), and not from the daemon (skipped).
	ours, wanted, skipped int
	firstSkipped          string
	from, to              time.Time // time span covered by the daemon's lines
}

// New returns a Reader that prints to out. It returns an error if an option isn't valid.
func New(o Options, out io.Writer) (*Reader, error) {
	if o.Summary && (len(o.Events) > 0 || o.Level != nil) {
		return nil, errors.New("summary: found with event or level, want only device, since or until: " +
			"a summary without some of the lines would be wrong")
	}
	if err := o.check(); err != nil {
		return nil, err
	}
	return &Reader{o: o, out: bufio.NewWriterSize(out, 64<<10), words: printer{colour: o.Colour}, devices: map[[2]string]*Device{}}, nil
}

// Read reads a log until it ends or ctx is done, neither of which is an error. name is the log's name in messages. Read
// returns any error from reading the log or writing the output. If ctx is done while a read of the log is blocked, Read
// returns but its reading goroutine stays behind.
func (r *Reader) Read(ctx context.Context, name string, in io.Reader) error {
	lines, done := make(chan []byte, 64), make(chan struct{})
	defer close(done)
	var failed error // must not be read until lines is closed
	go func() {
		defer close(lines)
		failed = readLines(in, func(text []byte) bool {
			select {
			case lines <- text:
				return true
			case <-done:
				return false
			}
		})
	}()
	for number := 1; ; number++ {
		text, err := r.next(ctx, lines)
		if text == nil {
			r.folder.endAll()
			r.release()
			if err == nil {
				err = r.out.Flush()
			}
			if err != nil || ctx.Err() != nil {
				return err
			}
			if errors.Is(failed, bufio.ErrTooLong) {
				return fmt.Errorf("%s:%d: found a line of more than %d bytes, want the log of the daemon", name, number, maxLine)
			}
			return failed // an error from a file contains its path
		}
		if l, ok := parse(text); ok {
			l.origin = cmp.Or(l.origin, r.Origin)
			r.add(&l)
		} else if len(bytes.TrimSpace(text)) > 0 {
			if r.skipped++; r.skipped == 1 {
				const shown = 60
				r.firstSkipped = fmt.Sprintf("line %d of %s: %s", number, name, text[:min(len(text), shown)])
			}
		}
	}
}

// next returns the next line, or nil if there are no more. It flushes the output before waiting for a line. If no line
// arrives within foldWithin, it prints the lines that are waiting for the end of a burst.
func (r *Reader) next(ctx context.Context, lines <-chan []byte) ([]byte, error) {
	if ctx.Err() != nil {
		return nil, nil
	}
	select {
	case text := <-lines:
		return text, nil
	default:
	}
	if err := r.out.Flush(); err != nil {
		return nil, err
	}
	pause := time.NewTimer(foldWithin)
	defer pause.Stop()
	for {
		select {
		case text := <-lines:
			return text, nil
		case <-ctx.Done():
			return nil, nil
		case <-pause.C:
			r.folder.endAll()
			r.release()
			if err := r.out.Flush(); err != nil {
				return nil, err
			}
		}
	}
}

// readLines calls yield for each line until yield returns false.
func readLines(in io.Reader, yield func([]byte) bool) error {
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, maxLine)
	for lines.Scan() {
		if !yield(bytes.Clone(lines.Bytes())) {
			break
		}
	}
	return lines.Err()
}

// add handles a line from the daemon. Lines from before Since also update their devices' states, because the state at
// Since depends on them.
func (r *Reader) add(l *line) {
	r.ours++
	widen(&r.from, &r.to, l.time)
	place := r.o.place(l.time)
	if place == 0 {
		r.count(l)
	}
	if place <= 0 && l.level > zapcore.DebugLevel {
		r.follow(l)
	}
	r.folder.expire(l.time)
	r.release()
	if place != 0 || !r.o.wantsEvent(l) || !r.o.Summary && !r.o.wantsLine(l) {
		return
	}
	r.wanted++
	switch {
	case r.o.Summary:
	case r.o.JSON:
		r.out.Write(append(terminal.AppendJSON(nil, l.json), '\n'))
	case r.o.All || r.o.Level != nil || len(r.o.Events) > 0:
		r.out.WriteString(r.words.line(l))
	default:
		r.folder.add(l)
		r.release()
	}
}

// count includes a line in the totals for the time range. At the first such line, it resets the devices' counts.
func (r *Reader) count(l *line) {
	if r.total.From.IsZero() {
		for _, d := range r.devices {
			d.Events, d.Turns, d.Removed, d.RemovedHeld = 0, 0, 0, 0
		}
	}
	widen(&r.total.From, &r.total.To, l.time)
	if l.event == logevent.DaemonStarted.String {
		r.total.Starts++
	}
}

// release prints the lines that don't have to wait for the end of a burst.
func (r *Reader) release() {
	for _, l := range r.folder.ready() {
		r.out.WriteString(r.words.line(l))
	}
}

// widen extends a time span so that it includes t.
func widen(from, to *time.Time, t time.Time) {
	if from.IsZero() || t.Before(*from) {
		*from = t
	}
	if t.After(*to) {
		*to = t
	}
}

// Close prints the summary, if requested, and flushes the output.
func (r *Reader) Close() error {
	switch {
	case r.o.Summary && r.o.JSON:
		terminal.WriteJSON(r.out, r.summary())
	case r.o.Summary:
		r.summary().print(r.out, r.o.Colour)
	}
	return r.out.Flush()
}

// Notes returns notes for the user about skipped lines, a filter that didn't select any lines, devices that the log
// doesn't mention, and devices that were removed while no daemon was running.
func (r *Reader) Notes() (notes []string) {
	note := func(format string, a ...any) { notes = append(notes, terminal.Escape(fmt.Sprintf(format, a...))) }
	if r.skipped > 0 {
		note("skipped %s of other programs, or incomplete (first: %s)", count(r.skipped, "line"), r.firstSkipped)
	}
	if r.ours == 0 {
		note("found no line of the daemon's log in JSON, want the output of a daemon with --log-format json")
		return notes
	}
	var unseen []string
	for _, d := range r.devices {
		if d.unseen && d.Last != gone && r.o.wantsDevice(d.ID) {
			unseen = append(unseen, strings.TrimSpace(d.Origin+" "+d.ID))
		}
	}
	known, unknown := r.asked()
	for _, device := range unknown {
		note("no device %s in this log; there are %s", device, listed(known))
	}
	if r.wanted == 0 {
		note("none of %s selected; the log is from %s to %s", count(r.ours, "line"), r.from.Format(time.RFC3339), r.to.Format(time.RFC3339))
	}
	if len(unseen) > 0 {
		note("removed while no daemon was running, or not found by the newest daemon: %s", listed(unseen))
	}
	return notes
}

// Empty reports whether the input didn't contain any of the daemon's lines.
func (r *Reader) Empty() bool { return r.ours == 0 }

// HasUnknownDevice reports whether the filter contains a device that the log doesn't mention.
func (r *Reader) HasUnknownDevice() bool {
	_, unknown := r.asked()
	return len(unknown) > 0
}

// asked returns the devices that the log mentions (known), and those in the filter that it doesn't mention (unknown).
func (r *Reader) asked() (known, unknown []string) {
	for _, d := range r.devices {
		known = append(known, d.ID)
	}
	for _, device := range r.o.Devices {
		if one := (Filter{Devices: []string{device}}); !slices.ContainsFunc(known, one.wantsDevice) {
			unknown = append(unknown, device)
		}
	}
	return known, unknown
}

// listed returns the names as a single string, sorted and without duplicates.
func listed(names []string) string {
	slices.Sort(names)
	return cmp.Or(shortened(strings.Join(slices.Compact(names), ", ")), "none")
}
