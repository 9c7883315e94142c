package main

import (
	"fmt"
	"io"
	"sync"
	"time"

	"b-com.com/accelerator-device-plugin/internal/terminal"
)

// progress shows how much of a file has been transferred. On a terminal, it keeps updating a single line; otherwise, it
// writes a line every 10 s. Its methods can be called concurrently, because an abandoned upload may go on calling show
// for a moment.
type progress struct {
	mu       sync.Mutex
	w        io.Writer
	what     string
	terminal bool
	began    time.Time
	shown    time.Time
	first    int64 // how many bytes were already there at the start
	dirty    bool  // the terminal's line needs to be cleared
}

func newProgress(w io.Writer, quiet bool, what string) *progress {
	if quiet {
		w = io.Discard
	}
	return &progress{w: w, what: terminal.Escape(what), terminal: terminal.Is(w)}
}

func (p *progress) show(done, total int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	if p.began.IsZero() {
		p.began, p.first = now, done
	}
	pause := 10 * time.Second
	if p.terminal {
		pause = time.Second / 4
	}
	if now.Sub(p.shown) < pause {
		return
	}
	p.shown = now
	const mib = 1 << 20
	text := fmt.Sprintf("%d %% of %.1f MiB", 100*done/total, float64(total)/mib)
	if seconds := now.Sub(p.began).Seconds(); seconds >= 1 {
		text += fmt.Sprintf(", %.1f MiB/s", float64(done-p.first)/mib/seconds)
	}
	if p.terminal { // leave out the reference, which may be longer than the line
		fmt.Fprintf(p.w, "\r%s\x1b[K", text)
		p.dirty = true
		return
	}
	fmt.Fprintf(p.w, "%s: %s\n", p.what, text)
}

// log prints a line.
func (p *progress) log(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.clearLine()
	fmt.Fprintf(p.w, "%s: %s\n", p.what, short(text))
}

// clear clears the line on the terminal.
func (p *progress) clear() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.clearLine()
}

func (p *progress) clearLine() {
	if p.dirty {
		fmt.Fprint(p.w, "\r\x1b[K")
		p.dirty = false
	}
}
