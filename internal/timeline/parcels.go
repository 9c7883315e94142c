package timeline

import "bytes"

// parcels puts lines together that a container runtime cut into pieces. There are
// two streams, and their pieces come mixed.
type parcels struct {
	open map[string][]byte // stream -> what came so far
	lost map[string]bool   // it was too long, its rest is passed over
}

// criPiece takes a line of a CRI file apart: TIME STREAM P|F[:TAGS] CONTENT.
func criPiece(data []byte) (stream, content []byte, partial, ok bool) {
	stamp, rest, _ := bytes.Cut(data, []byte(" "))
	stream, rest, _ = bytes.Cut(rest, []byte(" "))
	if string(stream) != "stderr" && string(stream) != "stdout" || !isTime(stamp) {
		return nil, nil, false, false
	}
	tag, content, found := bytes.Cut(rest, []byte(" "))
	tag, _, _ = bytes.Cut(tag, []byte(":"))
	if !found && len(tag) != 1 || string(tag) != "P" && string(tag) != "F" {
		return nil, nil, false, false
	}
	return stream, content, string(tag) == "P", true
}

// add takes a piece. It returns the line when that is complete; tooLong, once, when
// it will never be.
func (p *parcels) add(stream, content []byte, partial bool) (complete []byte, tooLong bool) {
	key := string(stream)
	if p.lost[key] {
		if !partial {
			delete(p.lost, key)
		}
		return nil, false
	}
	begun := p.open[key]
	if !partial && len(begun) == 0 {
		return content, false
	}
	if len(begun)+len(content) > maxLine {
		p.open[key] = begun[:0]
		if partial {
			p.lost[key] = true
		}
		return nil, true
	}
	begun = append(begun, content...)
	p.open[key] = begun
	if partial {
		return nil, false
	}
	p.open[key] = begun[:0]
	return begun, false
}

// unfinished counts the lines whose end has not come.
func (p *parcels) unfinished() (n int) {
	for _, begun := range p.open {
		if len(begun) > 0 {
			n++
		}
	}
	return n
}
