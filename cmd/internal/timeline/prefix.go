package timeline

import (
	"bytes"
	"regexp"
	"strings"
	"time"
)

// unwrap returns the JSON object at the end of a line, and the pod or host in the prefix before it. It
// returns nil if there is no object.
func unwrap(data []byte) (object []byte, origin string) {
	begin := bytes.Index(data, []byte(`{"`))
	if begin < 0 {
		return nil, ""
	}
	return bytes.TrimRight(data[begin:], " \t\r\n"), originOf(data[:begin])
}

// colours are the escape sequences of stern --color=always.
var colours = regexp.MustCompile("\x1b\\[[0-9;]*m")

// prefixes matches the prefixes of tools that name the pod or the host. Stern shows the namespace
// with --all-namespaces; the clocks of journalctl are those of its formats short
// (with the name of the month in the language of the host), short-iso, short-full,
// short-monotonic and short-unix.
var prefixes = regexp.MustCompile(strings.NewReplacer(
	"NAME", `[a-z0-9][a-z0-9.-]*`,
	"STAMP", `\d{4}-\d\d-\d\dT\S+`,
	"CLOCK", `(?:\S+ [ \d]\d [\d:.]+|\d{4}-\d\d-\d\dT\S+|\w{3} \d{4}-\d\d-\d\d \S+ \S+|\[[^\]]*\]|\d+\.\d+)`,
).Replace(`^\[pod/([^/\]]+)/` + // kubectl logs --prefix
	`|^(\S+)\s+\|(?: STAMP)?$` + // docker compose
	`|[{ ,]pod="([^"]+)".*}$` + // logcli
	`|^CLOCK (\S+) \S+:$` + // journalctl, syslog
	`|^(?:STAMP )?(?:NAME )?(NAME) NAME(?: STAMP)?$`)) // stern

// originOf returns the pod or host in a prefix, or "".
func originOf(prefix []byte) string {
	if len(prefix) == 0 || len(prefix) > 1024 {
		return ""
	}
	for i, name := range prefixes.FindSubmatch(bytes.TrimSpace(colours.ReplaceAll(prefix, nil))) {
		if i > 0 && name != nil {
			return cutOrigin(string(name))
		}
	}
	return ""
}

// cutOrigin cuts a name to 253 bytes, the most that names of pods and hosts have.
func cutOrigin(name string) string { return name[:min(len(name), 253)] }

// inner returns a line that is a string in an object of another program, and the pod or host in that
// object. The programs are stern -o json, journalctl -o json, and docker. The objects of docker also
// have the stream, stderr or stdout.
func (l *line) inner() (content, origin, stream string) {
	if content, stream = l.text("log"), l.text("stream"); content != "" && (stream == "stderr" || stream == "stdout") {
		return content, "", stream
	}
	for _, c := range []struct{ text, origin string }{{"log", ""}, {"message", "podName"}, {"MESSAGE", "_HOSTNAME"}} {
		if content = l.text(c.text); strings.HasPrefix(content, "{") {
			return content, cutOrigin(l.text(c.origin)), ""
		}
	}
	return "", "", ""
}

// criPiece parses a line of a container runtime's log file: TIME STREAM P|F[:TAGS] CONTENT. A line
// with P is one piece of a longer line.
func criPiece(data []byte) (stream string, content []byte, partial, ok bool) {
	words := bytes.SplitN(data, []byte(" "), 4)
	if len(words) < 3 || string(words[1]) != "stderr" && string(words[1]) != "stdout" {
		return "", nil, false, false
	}
	tag, _, _ := bytes.Cut(words[2], []byte(":"))
	_, err := time.Parse(time.RFC3339Nano, string(words[0]))
	if err != nil || string(tag) != "P" && string(tag) != "F" {
		return "", nil, false, false
	}
	if len(words) == 4 {
		content = words[3]
	}
	return string(words[1]), content, string(tag) == "P", true
}

// pieces has the first pieces of a line that a container runtime has cut. There is one for each stream,
// because pieces of stdout and stderr may alternate.
type pieces struct {
	begun []byte
	lost  bool // the line is too long: its remaining pieces are skipped
}

// join adds a piece to its line. With the last piece it returns the whole line.
func (r *Reader) join(stream string, content []byte, partial bool) (whole []byte, complete bool) {
	p := r.pieces[stream]
	if p == nil {
		p = &pieces{}
		r.pieces[stream] = p
	}
	if !p.lost && len(p.begun)+len(content) > maxLine {
		*p = pieces{begun: p.begun[:0], lost: true}
		r.noteBroken(tooLong, content)
	}
	if !p.lost {
		p.begun = append(p.begun, content...)
	}
	if partial {
		return nil, false
	}
	whole, complete = p.begun, !p.lost
	*p = pieces{begun: p.begun[:0]}
	return whole, complete
}
