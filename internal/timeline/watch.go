package timeline

import "time"

// watch is when daemons of an origin watched, and as what.
type watch struct {
	first, newest time.Time // lines, of those before the end of the time that is looked at
	begin, end    time.Time // of that time; zero: it is the log's
	past          bool      // there are lines after that
	mode          string
}

func (w *watch) setMode(mode []byte) {
	if len(mode) <= maxKey {
		w.mode = string(mode)
	}
}

// watch is that of an origin, and where a line stands that it has at t.
func (s *summary) watch(origin string, t time.Time) (*watch, phase) {
	w := s.watches[origin]
	if w == nil {
		w = &watch{first: t}
		if len(s.watches) < maxOrigins {
			s.watches[origin] = w
		}
	}
	w.begin, w.end = s.filter.window(t.Location())
	if t.After(s.total.LogEnds) {
		s.total.LogEnds = t
	}
	return w, phaseOf(t, w.begin, w.end)
}

// span notes that a daemon watched at t, and what was seen before holds on.
func (s *summary) span(w *watch, p phase, t time.Time) {
	w.newest = t
	if p == before {
		t = w.begin
	}
	if s.total.From.IsZero() || t.Before(s.total.From) {
		s.total.From = t
	}
	if t.After(s.total.To) {
		s.total.To = t
	}
}

// skipped takes a line of which nothing counts but that a daemon watched then.
func (s *summary) skipped(origin string, t time.Time) {
	w, phase := s.watch(origin, t)
	if phase == after {
		w.past = true
		return
	}
	s.span(w, phase, t)
}

// last is until when things are taken to be as an origin's last line left them:
// until the end of the time that is looked at, but that of no time that is to come.
func (s *summary) last(w *watch) time.Time {
	end := w.end
	if now := s.filter.Until.now; end.After(now) {
		end = now
	}
	if end.After(w.newest) {
		return end
	}
	return w.newest
}
