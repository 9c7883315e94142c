package soak

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
)

// Writer writes a history line by line, so that no lines are lost if the run is killed.
type Writer struct{ w io.Writer }

// NewWriter returns a Writer that writes a history to w.
func NewWriter(w io.Writer) *Writer { return &Writer{w} }

// Write writes a line with its times rounded to milliseconds.
func (w *Writer) Write(line Line) error {
	line.At = rounded(line.At)
	switch {
	case line.Container != nil:
		k := *line.Container
		k.Started, k.Seen = rounded(k.Started), rounded(k.Seen)
		line.Container = &k
	case line.Port != nil:
		p := *line.Port
		p.Since = rounded(p.Since)
		line.Port = &p
	case line.Offers != nil:
		o := *line.Offers
		o.Seen = rounded(o.Seen)
		line.Offers = &o
	case line.Quiet != nil:
		q := *line.Quiet
		q.Since = rounded(q.Since)
		line.Quiet = &q
	}
	text, err := json.Marshal(line)
	if err != nil {
		return err
	}
	_, err = w.w.Write(append(text, '\n'))
	return err
}

func rounded(seconds float64) float64 { return math.Round(seconds*1000) / 1000 }

// Read calls the function each for every line of a history, in order, and stops if the function returns an error. If a
// run was killed, its last line may be incomplete; Read skips such a line. Unknown fields are an error, because a field
// may have had a different meaning in another version's history.
func Read(r io.Reader, each func(Line) error) error {
	in := bufio.NewReaderSize(r, 1<<16)
	at := 0.0
	for n := 1; ; n++ {
		text, err := in.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return nil // the rest is an incomplete line
		}
		if err != nil {
			return fmt.Errorf("line %d: %w", n, err)
		}
		line, err := parse(text)
		if err == nil && line.At < at {
			err = fmt.Errorf("t: found %v after %v, want lines in the order of time", line.At, at)
		}
		if err != nil {
			return fmt.Errorf("line %d: %w", n, err)
		}
		at = line.At
		if err := each(line); err != nil {
			return err
		}
	}
}

// parse parses a line, which must have exactly one field besides the time.
func parse(text []byte) (line Line, err error) {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&line); err != nil {
		return line, err
	}
	if rest, _ := io.ReadAll(decoder.Buffered()); len(bytes.TrimSpace(rest)) > 0 {
		return line, fmt.Errorf("found %.40q after the object, want one object in a line", rest)
	}
	fields := 0
	for _, set := range []bool{line.Run != nil, line.Op != nil, line.Done != nil, line.Pod != nil, line.Container != nil,
		line.Port != nil, line.Offers != nil, line.Quiet != nil, line.Wrong != nil} {
		if set {
			fields++
		}
	}
	if fields != 1 {
		return line, fmt.Errorf("found %d fields besides t, want one", fields)
	}
	return line, nil
}

// ReadFile returns the lines of the history in a file.
func ReadFile(path string) (lines []Line, err error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	err = Read(file, func(line Line) error {
		lines = append(lines, line)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return lines, nil
}
