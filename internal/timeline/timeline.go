package timeline

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"time"

	"b-com.com/accelerator-device-plugin/internal/terminal"
)

// Options say what a [Reader] prints.
type Options struct {
	Filter
	JSON    bool // lines as they were written, or the summary as an object
	Summary bool // at the end, instead of lines
	Colour  bool // for terminals
}

// Bounds of what is kept in memory, whatever comes.
const (
	maxLine    = 256 << 10 // bytes; ours have some hundred
	maxDevices = 10_000
	maxKey     = 512 // bytes of a name by which something is counted
)

// Reader reads logs and prints what is wanted of them.
type Reader struct {
	o       Options
	out     *bufio.Writer
	line    line
	pieces  parcels
	words   phrase
	summary *summary
	tally   tally
	asked   asked
	there   presence
	file    string
	failed  bool
	number  int // of the line in the file, from 1
}

// New returns a Reader that prints to out. The error says which option cannot be
// meant.
func New(o Options, out io.Writer) (*Reader, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	r := &Reader{
		o: o, out: bufio.NewWriterSize(out, 64<<10), words: phrase{colour: o.Colour},
		pieces: parcels{open: map[string][]byte{}, lost: map[string]bool{}},
		tally:  tally{newest: map[string]time.Time{}},
		there:  presence{devices: map[string]*sighting{}, modes: map[string]string{}},
	}
	r.summary, r.asked.filter = newSummary(&r.o.Filter), &r.o.Filter
	return r, nil
}

// check finds what cannot be meant, and prepares the filter.
func (o *Options) check() error {
	if o.Summary && (len(o.Events) > 0 || o.Level != nil) {
		return errors.New("summary with event or level: a summary counts all lines, or it would be wrong; want device, resource, since or until")
	}
	return o.Filter.check()
}

// Read reads a log to its end; name is for messages. It may be compressed by gzip.
// An error is one of in, or, as an [OutputError], of what it prints to.
func (r *Reader) Read(name string, in io.Reader) error {
	r.file, r.number = name, 0
	lines := bufio.NewReaderSize(flushing{in, r.out}, maxLine)
	if magic, _ := lines.Peek(2); string(magic) == "\x1f\x8b" {
		unpacked, err := gzip.NewReader(lines)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		lines = bufio.NewReaderSize(flushing{unpacked, r.out}, maxLine)
	}
	err := r.lines(lines)
	r.failed = r.failed || err != nil
	for range r.pieces.unfinished() {
		r.tally.broke(r, "its last piece is missing", nil)
	}
	clear(r.pieces.open)
	clear(r.pieces.lost)
	if flushed := r.out.Flush(); flushed != nil {
		return OutputError{flushed}
	}
	var printing OutputError
	if err != nil && !errors.As(err, &printing) {
		return fmt.Errorf("%s: %w", name, err)
	}
	return err
}

// OutputError says that nothing more can be printed.
type OutputError struct{ error }

func (e OutputError) Unwrap() error { return e.error }

// flushing shows what has been printed before it waits for more to read.
type flushing struct {
	io.Reader
	out *bufio.Writer
}

func (f flushing) Read(p []byte) (int, error) {
	if err := f.out.Flush(); err != nil {
		return 0, OutputError{err}
	}
	return f.Reader.Read(p)
}

// lines takes line by line, and passes over those that are too long.
func (r *Reader) lines(in *bufio.Reader) error {
	for {
		data, err := in.ReadSlice('\n')
		if len(data) > 0 {
			r.number++
			r.tally.read++
		}
		if errors.Is(err, bufio.ErrBufferFull) {
			r.tally.broke(r, "longer than 256 KiB", data)
			for errors.Is(err, bufio.ErrBufferFull) {
				_, err = in.ReadSlice('\n')
			}
		} else if len(data) > 0 {
			if err := r.take(bytes.TrimRight(data, "\r\n")); err != nil {
				return OutputError{err}
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

// take takes a line as it stands in the file.
func (r *Reader) take(data []byte) error {
	if stream, content, partial, ok := criPiece(data); ok {
		return r.piece(stream, content, partial)
	}
	return r.whole(data)
}

func (r *Reader) piece(stream, content []byte, partial bool) error {
	complete, tooLong := r.pieces.add(stream, content, partial)
	if tooLong {
		r.tally.broke(r, "longer than 256 KiB", content)
	}
	if complete == nil {
		return nil
	}
	return r.whole(complete)
}

// whole takes a line that is complete, but may have something around it.
func (r *Reader) whole(data []byte) error {
	json, origin := unwrap(data)
	if json == nil {
		r.tally.others++
		return nil
	}
	if stamp, skip := r.o.skips(json); skip {
		r.tally.ours++
		r.asked.skipped(stamp)
		if r.o.Summary {
			r.skipped(stamp, origin)
		}
		return nil
	}
	verdict, why := r.line.parse(json)
	if verdict == others {
		if content, named, docker := r.line.inner(); docker {
			whole, ended := bytes.CutSuffix(content, []byte("\n"))
			return r.piece(r.line.text("stream"), whole, !ended && !bytes.HasSuffix(whole, []byte("}")))
		} else if content != nil {
			json, origin = content, named
			verdict, why = r.line.parse(json)
		}
	}
	switch verdict {
	case others:
		r.tally.others++
		return nil
	case console:
		r.tally.console++
		return nil
	case broken:
		r.tally.broke(r, why, json)
		return nil
	}
	r.line.origin = origin
	return r.event()
}

// skipped takes a line of which nothing counts but that a daemon watched then.
func (r *Reader) skipped(stamp, origin []byte) {
	if t, err := time.Parse(time.RFC3339Nano, string(stamp)); err == nil {
		r.summary.skipped(string(origin), t)
	}
}

// event takes a line of ours.
func (r *Reader) event() error {
	l := &r.line
	r.tally.ours++
	r.tally.clock(r, l)
	r.o.learn(l)
	wanted := r.o.wants(l)
	if r.o.Summary {
		wanted = r.o.wantsEvent(l)
		r.summary.note(l, wanted)
	}
	begin, end := r.o.window(l.time.Location())
	looked := phaseOf(l.time, begin, end) == within
	r.asked.note(l, looked)
	if !looked {
		return nil
	}
	r.there.note(r, l)
	if !wanted {
		return nil
	}
	r.tally.wanted++
	if r.o.Summary {
		return nil
	}
	text := r.words.buf[:0]
	if r.o.JSON {
		text = append(terminal.AppendJSON(text, l.json), '\n')
		r.words.buf = text
	} else {
		text = r.words.line(l)
	}
	_, err := r.out.Write(text)
	return err
}

// Close prints the summary, where one is wanted.
func (r *Reader) Close() error {
	if r.o.Summary {
		result := r.summary.result(r.tally)
		if err := result.print(r.out, r.o.JSON, r.o.Colour); err != nil {
			return OutputError{err}
		}
	}
	if err := r.out.Flush(); err != nil {
		return OutputError{err}
	}
	return nil
}
