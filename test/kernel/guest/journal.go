package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"
)

// journal contains the daemon's and the hooks' logs.
type journal struct {
	copy io.Writer

	mu    sync.Mutex
	lines []line
}

// line is a log line with its fields as text.
type line struct {
	fields map[string]string
	found  bool // whether an earlier step in the story has found it
}

// read reads a log to its end. For a line that isn't JSON, it sets only the text field.
func (j *journal) read(r io.Reader) {
	lines := bufio.NewReader(r)
	for {
		text, err := lines.ReadString('\n')
		if text != "" {
			j.add(text)
		}
		if err != nil {
			return
		}
	}
}

func (j *journal) add(text string) {
	_, _ = io.WriteString(j.copy, text) // a file in memory
	var fields map[string]any
	if err := json.Unmarshal([]byte(text), &fields); err != nil {
		fields = map[string]any{"text": text}
	}
	l := line{fields: map[string]string{}}
	for name, value := range fields {
		l.fields[name] = flat(value)
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.lines = append(j.lines, l)
}

// flat formats a value the way stories write it.
func flat(value any) string {
	list, ok := value.([]any)
	if !ok {
		return fmt.Sprint(value)
	}
	var words []string
	for _, v := range list {
		words = append(words, fmt.Sprint(v))
	}
	return strings.Join(words, ",")
}

// await waits for a line that has this event and these fields, and that no earlier await has found.
func (j *journal) await(ctx context.Context, event string, fields map[string]string) error {
	for {
		if j.find(event, fields, true) {
			return nil
		}
		if pause(ctx, 20*time.Millisecond) != nil {
			return fmt.Errorf("log: found no such line; lines with this event:\n%s", j.with(event))
		}
	}
}

// find reports whether there is a line with this event and these fields. If take is true, it skips lines that are
// already marked as found, and marks the one it finds.
func (j *journal) find(event string, fields map[string]string, take bool) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	for i, l := range j.lines {
		if !l.is(event, fields) || take && l.found {
			continue
		}
		j.lines[i].found = j.lines[i].found || take
		return true
	}
	return false
}

// last returns the time of the last line with this event and device.
func (j *journal) last(event, device string) (time.Time, bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, l := range slices.Backward(j.lines) {
		if l.is(event, map[string]string{"device": device}) {
			at, err := time.Parse(time.RFC3339Nano, l.fields["time"])
			return at, err == nil
		}
	}
	return time.Time{}, false
}

func (l line) is(event string, fields map[string]string) bool {
	if l.fields["event"] != event {
		return false
	}
	for name, want := range fields {
		if l.fields[name] != want {
			return false
		}
	}
	return true
}

// with returns the last five lines with an event, each with its fields sorted.
func (j *journal) with(event string) string {
	j.mu.Lock()
	defer j.mu.Unlock()
	var shown []string
	for _, l := range j.lines {
		if l.fields["event"] == event {
			shown = append(shown, strings.TrimPrefix(fmt.Sprint(l.fields), "map"))
		}
	}
	if n := len(shown); n > 5 {
		shown = shown[n-5:]
	}
	return strings.Join(shown, "\n")
}
