package timeline

import "bytes"

// kind is the type of a JSON value.
type kind byte

const (
	text kind = iota + 1
	number
	list   // of anything
	object // nested
	word   // true, false, null
)

// member is one of an object's. Its bytes are those of the line.
type member struct {
	key   []byte // as it stands, without quotes; keys of ours need no escapes
	kind  kind
	value []byte // as it stands; a text without its quotes
}

const (
	maxMembers = 64 // ours have fewer than 20
	maxDepth   = 16
)

// scanner reads one line of JSON. It exists beside encoding/json because it takes
// a quarter of the time, and a gigabyte is mostly lines that nobody wants to see.
// What it accepts is valid JSON: the fuzz test holds it against encoding/json.
type scanner struct {
	data []byte
	at   int
}

// parseObject appends the members of an object to into. ok says whether data is
// one object, and nothing else but space.
func parseObject(data []byte, into []member) (members []member, ok bool) {
	s := scanner{data: data}
	s.space()
	if !s.take('{') {
		return into, false
	}
	ok = s.members(func(m member) bool {
		into = append(into, m)
		return len(into) <= maxMembers
	}, 1)
	s.space()
	return into, ok && s.at == len(data)
}

func (s *scanner) space() {
	for s.at < len(s.data) && (s.data[s.at] == ' ' || s.data[s.at] == '\t' || s.data[s.at] == '\r' || s.data[s.at] == '\n') {
		s.at++
	}
}

func (s *scanner) take(c byte) bool {
	if s.at < len(s.data) && s.data[s.at] == c {
		s.at++
		return true
	}
	return false
}

// members reads the rest of an object whose brace has been taken.
func (s *scanner) members(each func(member) bool, depth int) bool {
	s.space()
	if s.take('}') {
		return true
	}
	for {
		s.space()
		key, ok := s.text()
		if !ok {
			return false
		}
		s.space()
		if !s.take(':') {
			return false
		}
		kind, value, ok := s.value(depth)
		if !ok || each != nil && !each(member{key, kind, value}) {
			return false
		}
		s.space()
		if s.take('}') {
			return true
		}
		if !s.take(',') {
			return false
		}
	}
}

// elements reads the rest of a list whose bracket has been taken.
func (s *scanner) elements(each func(kind, []byte), depth int) bool {
	s.space()
	if s.take(']') {
		return true
	}
	for {
		kind, value, ok := s.value(depth)
		if !ok {
			return false
		}
		if each != nil {
			each(kind, value)
		}
		s.space()
		if s.take(']') {
			return true
		}
		if !s.take(',') {
			return false
		}
	}
}

func (s *scanner) value(depth int) (kind, []byte, bool) {
	s.space()
	if s.at == len(s.data) {
		return 0, nil, false
	}
	begin := s.at
	switch c := s.data[s.at]; {
	case c == '"':
		value, ok := s.text()
		return text, value, ok
	case c == '-' || '0' <= c && c <= '9':
		ok := s.number()
		return number, s.data[begin:s.at], ok
	case c == '{' && depth < maxDepth:
		s.at++
		ok := s.members(nil, depth+1)
		return object, s.data[begin:s.at], ok
	case c == '[' && depth < maxDepth:
		s.at++
		ok := s.elements(nil, depth+1)
		return list, s.data[begin:s.at], ok
	}
	for _, w := range []string{"true", "false", "null"} {
		if bytes.HasPrefix(s.data[s.at:], []byte(w)) {
			s.at += len(w)
			return word, s.data[begin:s.at], true
		}
	}
	return 0, nil, false
}

// text reads a string and returns what is between its quotes.
func (s *scanner) text() ([]byte, bool) {
	if !s.take('"') {
		return nil, false
	}
	begin := s.at
	for s.at < len(s.data) {
		switch c := s.data[s.at]; {
		case c == '"':
			s.at++
			return s.data[begin : s.at-1], true
		case c < ' ':
			return nil, false
		case c == '\\':
			if !s.escape() {
				return nil, false
			}
		default:
			s.at++
		}
	}
	return nil, false
}

// escape passes a backslash and what belongs to it.
func (s *scanner) escape() bool {
	rest := s.data[s.at+1:]
	if len(rest) == 0 {
		return false
	}
	if bytes.IndexByte([]byte(`"\/bfnrt`), rest[0]) >= 0 {
		s.at += 2
		return true
	}
	if rest[0] != 'u' || len(rest) < 5 {
		return false
	}
	for _, c := range rest[1:5] {
		if !('0' <= c && c <= '9' || 'a' <= c|0x20 && c|0x20 <= 'f') {
			return false
		}
	}
	s.at += 6
	return true
}

func (s *scanner) number() bool {
	s.take('-')
	if !s.take('0') && !s.digits() {
		return false
	}
	if s.take('.') && !s.digits() {
		return false
	}
	if s.take('e') || s.take('E') {
		if !s.take('+') {
			s.take('-')
		}
		return s.digits()
	}
	return true
}

func (s *scanner) digits() bool {
	begin := s.at
	for s.at < len(s.data) && '0' <= s.data[s.at] && s.data[s.at] <= '9' {
		s.at++
	}
	return s.at > begin
}
