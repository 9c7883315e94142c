package timeline

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"time"

	"go.uber.org/zap/zapcore"

	"b-com.com/accelerator-device-plugin/internal/terminal"
)

// Options select the output of a [Reader].
type Options struct {
	Filter
	JSON    bool // print lines as they were written, or the summary as an object
	Summary bool // print a summary at the end instead of lines
	All     bool // do not fold the lines of a pull or a plug into one
	Colour  bool // use terminal colours
}

// Limits that bound the use of memory for any input.
const (
	maxLine  = 256 << 10 // bytes; lines of the daemon have some hundred
	maxKept  = 10_000    // devices and resources, of all nodes together
	maxNodes = 1000
	maxName  = 512 // bytes of a name that is kept
)

const tooLong = "longer than 256 KiB"

// Reader reads logs and prints the selected lines, or a summary. Create it with [New].
type Reader struct {
	o      Options
	out    *bufio.Writer // keeps its first error, which Read returns when it flushes
	words  printer
	folder folder
	pieces map[string]*pieces // by stream
	nodes  map[string]*node   // by origin
	kept   int                // devices and resources of all nodes
	total  Summary

	file   string // name of the current file
	number int    // number of the current line in the file, from 1
	failed bool   // Read has returned an error

	// Numbers of lines: all; those of the daemon (ours) and, of these, the selected ones (wanted); the
	// skipped ones: of other programs (foreign), of --log-format console, and broken.
	lines, ours, wanted, foreign, console, broken int

	backwards                   int // how often time went back
	firstBroken, firstBackwards string
	from, to                    time.Time // of the daemon's lines
}

// New returns a Reader that prints to out. The error names an option that is not valid.
func New(o Options, out io.Writer) (*Reader, error) {
	if o.Summary && (len(o.Events) > 0 || o.Level != nil) {
		return nil, errors.New("summary: found with event or level, want only device, resource, since or until: " +
			"a summary without some of the lines would be wrong")
	}
	if err := o.check(); err != nil {
		return nil, err
	}
	return &Reader{
		o: o, out: bufio.NewWriterSize(out, 64<<10), words: printer{colour: o.Colour},
		pieces: map[string]*pieces{}, nodes: map[string]*node{},
	}, nil
}

// Read reads a log to its end. name is its name in messages. The log may be compressed with gzip.
// Read returns the error of in, or an [OutputError].
func (r *Reader) Read(name string, in io.Reader) error {
	r.file, r.number = name, 0
	lines := bufio.NewReaderSize(flushing{in, r}, maxLine)
	var err error
	if magic, _ := lines.Peek(2); string(magic) == "\x1f\x8b" {
		var unpacked *gzip.Reader
		if unpacked, err = gzip.NewReader(lines); err == nil {
			lines = bufio.NewReaderSize(unpacked, maxLine)
		}
	}
	if err == nil {
		err = r.readLines(lines)
	}
	r.releaseAll()
	for stream, p := range r.pieces {
		if len(p.begun) > 0 {
			r.noteBroken("last piece missing", nil)
		}
		delete(r.pieces, stream)
	}
	if flushed := r.out.Flush(); flushed != nil {
		return OutputError{flushed}
	}
	if err != nil {
		r.failed = true
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// OutputError is an error of the output, after which the Reader can print no more.
type OutputError struct{ error }

func (e OutputError) Unwrap() error { return e.error }

// flushing is the input, with a flush of the output before each read, which may block. If no input
// arrives for foldWithin, it also prints the lines that wait for the end of a burst.
type flushing struct {
	in io.Reader
	r  *Reader
}

func (f flushing) Read(p []byte) (n int, err error) {
	if err := f.r.out.Flush(); err != nil {
		return 0, err
	}
	if len(f.r.folder.waiting) == 0 {
		return f.in.Read(p)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		n, err = f.in.Read(p)
	}()
	select {
	case <-done:
	case <-time.After(foldWithin):
		f.r.releaseAll()
		flushed := f.r.out.Flush()
		if <-done; flushed != nil {
			return 0, flushed
		}
	}
	return n, err
}

// readLines reads line by line. It skips lines that are too long.
func (r *Reader) readLines(in *bufio.Reader) error {
	for {
		data, err := in.ReadSlice('\n')
		if len(data) > 0 {
			r.number++
			r.lines++
		}
		if errors.Is(err, bufio.ErrBufferFull) {
			r.noteBroken(tooLong, data)
			for errors.Is(err, bufio.ErrBufferFull) {
				_, err = in.ReadSlice('\n')
			}
		} else if len(data) > 0 {
			data = bytes.TrimRight(data, "\r\n")
			complete := true
			if stream, content, partial, ok := criPiece(data); ok {
				data, complete = r.join(stream, content, partial)
			}
			if complete {
				r.object(unwrap(data))
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// object handles the JSON object in a line, or nil if there is none. The object is a line of the daemon,
// has such a line as a string, or belongs to another program.
func (r *Reader) object(object []byte, origin string) {
	if object == nil {
		r.foreign++
		return
	}
	if t, ok := r.skips(object); ok {
		r.note(t)
		return
	}
	l, err := parse(object)
	l.origin = origin
	switch {
	case err == nil:
		r.event(&l)
	case errors.Is(err, errConsole):
		r.console++
	case !errors.Is(err, errForeign):
		r.noteBroken(err.Error(), object)
	default:
		text, origin, stream := l.inner()
		content, complete := bytes.TrimRight([]byte(text), "\n"), true
		if stream != "" { // docker: only a whole line ends with a line feed
			content, complete = r.join(stream, content, len(content) == len(text) && !bytes.HasSuffix(content, []byte("}")))
		}
		if complete && bytes.HasPrefix(content, []byte("{")) {
			r.object(content, origin)
		} else if complete {
			r.foreign++
		}
	}
}

// skips reports whether a line need not be parsed, and returns its time. Debug lines, which are most
// lines of a log at level debug, need not be parsed unless an option selects them.
func (r *Reader) skips(object []byte) (time.Time, bool) {
	rest, debug := bytes.CutPrefix(object, []byte(`{"level":"debug","time":"`))
	if !debug || r.o.Level != nil || len(r.o.Events) > 0 || !bytes.Contains(rest, []byte(`"event":"`)) {
		return time.Time{}, false
	}
	stamp, _, _ := bytes.Cut(rest, []byte{'"'})
	t, err := time.Parse(time.RFC3339Nano, string(stamp))
	return t, err == nil
}

// note counts a line of the daemon with the time t. It reports whether t is before Since (early), or
// not before Until (late).
func (r *Reader) note(t time.Time) (early, late bool) {
	r.ours++
	widen(&r.from, &r.to, t)
	begin, end := r.o.window(t.Location())
	early, late = t.Before(begin), !end.IsZero() && !t.Before(end)
	if !early && !late {
		widen(&r.total.From, &r.total.To, t)
	}
	return early, late
}

// widen extends the span from from to to so that it contains t.
func widen(from, to *time.Time, t time.Time) {
	if from.IsZero() || t.Before(*from) {
		*from = t
	}
	if t.After(*to) {
		*to = t
	}
}

// disorder is the time by which a line may be older than the line before it, because goroutines that
// write at the same time do not write in order.
const disorder = 100 * time.Millisecond

// event handles a line of the daemon.
func (r *Reader) event(l *line) {
	early, late := r.note(l.time)
	n := r.node(l.origin)
	if back := n.last.Sub(l.time); back > disorder {
		if r.backwards++; r.backwards == 1 {
			r.firstBackwards = fmt.Sprintf("by %s at line %d of %s", appendDuration(nil, back), r.number, r.file)
		}
	}
	n.last = l.time
	for i, d := range r.o.devices {
		r.o.devices[i].found = d.found || d.pci != "" && d.pci == l.text("pci")
	}
	if !late && l.level > zapcore.DebugLevel {
		r.follow(l, n, !early)
	}
	r.folder.expire(l.time)
	r.release()
	if early || late || !r.o.wantsEvent(l) || !r.o.Summary && !(r.o.wantsDevice(l, n) && r.o.wantsResource(l, n)) {
		return
	}
	r.wanted++
	switch {
	case r.o.Summary:
	case r.o.JSON:
		r.words.buf = append(terminal.AppendJSON(r.words.buf[:0], l.json), '\n')
		r.out.Write(r.words.buf)
	case r.o.All || r.o.Level != nil || len(r.o.Events) > 0:
		r.out.Write(r.words.line(l))
	default:
		r.fold(l)
	}
}

// Close prints the summary, if one is wanted, and flushes the output.
func (r *Reader) Close() error {
	switch {
	case r.o.Summary && r.o.JSON:
		terminal.WriteJSON(r.out, r.summary())
	case r.o.Summary:
		r.summary().print(r.out, r.o.Colour)
	}
	if err := r.out.Flush(); err != nil {
		return OutputError{err}
	}
	return nil
}
