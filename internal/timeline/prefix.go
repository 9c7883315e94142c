package timeline

import (
	"bytes"
	"regexp"
	"time"
)

// unwrap takes off a line what tools put around it: what stands before the object
// names the origin at best. Labels in braces, as of Loki, begin none. JSON inside of JSON is for [line.inner], pieces of
// CRI files for criPiece.
func unwrap(data []byte) (json, origin []byte) {
	begin := bytes.Index(data, []byte(`{"`))
	if begin < 0 {
		return nil, nil
	}
	return bytes.TrimRight(data[begin:], " \t\r\n"), originOf(data[:begin])
}

// colours are the escape sequences of stern --color=always.
var colours = regexp.MustCompile("\x1b\\[[0-9;]*m")

// originOf finds who wrote a line in its prefix: the pod (kubectl logs --prefix,
// stern, compose, logcli), or the host (journalctl). nil where none is named.
func originOf(prefix []byte) []byte {
	if bytes.IndexByte(prefix, 0x1b) >= 0 {
		prefix = colours.ReplaceAll(prefix, nil)
	}
	prefix = bytes.TrimSpace(prefix)
	if len(prefix) == 0 || len(prefix) > 1024 {
		return nil
	}
	if inner, ok := bytes.CutPrefix(prefix, []byte("[pod/")); ok { // [pod/NAME/CONTAINER]
		if end := bytes.IndexAny(inner, "/]"); end > 0 {
			return cutOrigin(inner[:end])
		}
	}
	if prefix[len(prefix)-1] == '}' {
		if m := podLabel.FindSubmatch(prefix); m != nil {
			return cutOrigin(m[1])
		}
		return nil
	}
	words := bytes.Fields(prefix)
	last := words[len(words)-1]
	if bytes.HasSuffix(last, []byte(":")) { // … HOST PROGRAM[PID]:
		if rest := bytes.TrimRight(prefix[:len(prefix)-len(last)], " "); len(words) > 1 && !clocks.Match(rest) {
			return cutOrigin(words[len(words)-2])
		}
		return nil
	}
	if string(last) == "|" { // compose: NAME |
		return cutOrigin(words[0])
	}
	var named [][]byte
	for _, w := range words {
		if !isTime(w) {
			named = append(named, w)
		}
	}
	switch len(named) { // stern: [NAMESPACE] POD CONTAINER
	case 2:
		return cutOrigin(named[0])
	case 3:
		return cutOrigin(named[1])
	}
	return nil
}

// podLabel is the label that logcli shows of a stream of Loki's.
var podLabel = regexp.MustCompile(`[{ ,]pod="([^"]+)"`)

// clocks are the times of journalctl, the way they end before the program where
// --no-hostname leaves out the host: in its formats short, short-iso, short-full,
// short-monotonic, short-unix and short-delta.
var clocks = regexp.MustCompile(`(^|\s)(\d\d:\d\d:\d\d(\.\d+)?|\d{4}-\d\d-\d\dT\S+|\d{4}-\d\d-\d\d \S+ \S+|\[?[ \d]*\d\.\d+\]?|>\])$`)

func isTime(w []byte) bool {
	if len(w) < len("2006-01-02") || w[0] < '0' || w[0] > '9' {
		return false
	}
	_, err := time.Parse(time.RFC3339Nano, string(w))
	return err == nil
}

// cutOrigin bounds a name; those of pods and hosts have 253 bytes at most.
func cutOrigin(name []byte) []byte { return name[:min(len(name), 253)] }

// inner finds a line of ours as a text inside of a JSON object: docker's json-file
// ("log", which lacks its line feed when it is a piece), stern -o json ("message")
// and journalctl -o json ("MESSAGE").
func (l *line) inner() (content, origin []byte, docker bool) {
	content = l.text("log")
	if stream := string(l.text("stream")); content != nil && (stream == "stderr" || stream == "stdout") {
		return content, nil, true
	}
	if bytes.HasPrefix(content, []byte("{")) {
		return bytes.TrimRight(content, "\n"), nil, false
	}
	if content = l.text("message"); bytes.HasPrefix(content, []byte("{")) {
		return content, cutOrigin(l.text("podName")), false
	}
	if content = l.text("MESSAGE"); bytes.HasPrefix(content, []byte("{")) {
		return content, cutOrigin(l.text("_HOSTNAME")), false
	}
	return nil, nil, false
}
