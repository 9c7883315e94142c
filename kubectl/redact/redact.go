package redact

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	"b-com.com/accelerator-device-plugin/internal/logevent"
)

// Removed replaces text that is left out of the bundle.
const Removed = "(removed)"

// Redactor redacts the parts of a bundle.
type Redactor struct {
	node    string
	aliases map[string]string // aliases by kind and name
	counts  map[string]int    // number of aliases by kind
}

// New returns a Redactor for a bundle about a node.
func New(node string) *Redactor {
	return &Redactor{node: node, aliases: map[string]string{}, counts: map[string]int{}}
}

// Alias returns a name's alias, which has the form KIND-N.
func (r *Redactor) Alias(kind, name string) string {
	key := kind + " " + name
	if r.aliases[key] == "" {
		r.counts[kind]++
		r.aliases[key] = fmt.Sprintf("%s-%d", kind, r.counts[kind])
	}
	return r.aliases[key]
}

// Shape is a function that returns which part of a JSON value to keep. ok is false if nothing is kept.
type Shape func(r *Redactor, v any) (kept any, ok bool)

// JSON returns the part of a JSON document that the shape keeps. Its errors don't quote the document.
func (r *Redactor) JSON(shape Shape, text []byte) ([]byte, error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var v any
	if d.Decode(&v) != nil {
		return nil, errNotJSON
	}
	kept, _ := shape(r, v)
	out, err := json.MarshalIndent(kept, "", "  ")
	return append(out, '\n'), err
}

var errNotJSON = errors.New("its text cannot be parsed, so it could not be redacted")

// anyOf returns a shape that keeps what the first matching shape keeps. A shape that keeps only [Removed] doesn't
// match.
func anyOf(shapes ...Shape) Shape {
	return func(r *Redactor, v any) (any, bool) {
		var last any
		for _, s := range shapes {
			kept, ok := s(r, v)
			if text, _ := kept.(string); ok && text != Removed {
				return kept, true
			} else if ok {
				last = kept
			}
		}
		return last, last != nil
	}
}

// object returns a shape that keeps only the given keys of an object. Each key's shape determines what is kept of its
// value.
func object(keys map[string]Shape) Shape {
	return func(r *Redactor, v any) (any, bool) {
		from, ok := v.(map[string]any)
		if !ok {
			return nil, v == nil
		}
		to := map[string]any{}
		for key, shape := range keys {
			if value, has := from[key]; has {
				if kept, ok := shape(r, value); ok {
					to[key] = kept
				}
			}
		}
		return to, true
	}
}

// mapping returns a shape that keeps an object's entries whose keys match the first shape. The second shape determines
// what is kept of the entries' values.
func mapping(key, value Shape) Shape {
	return func(r *Redactor, v any) (any, bool) {
		from, ok := v.(map[string]any)
		if !ok {
			return nil, v == nil
		}
		to := map[string]any{}
		for _, name := range slices.Sorted(maps.Keys(from)) {
			as, _ := key(r, name)
			kept, ok := value(r, from[name])
			if text, _ := as.(string); ok && text != "" && text != Removed {
				to[text] = kept
			}
		}
		return to, true
	}
}

// list returns a shape for lists. The given shape determines what is kept of each element.
func list(of Shape) Shape {
	return func(r *Redactor, v any) (any, bool) {
		from, ok := v.([]any)
		if !ok {
			return nil, v == nil
		}
		to := []any{}
		for _, e := range from {
			if kept, ok := of(r, e); ok {
				to = append(to, kept)
			}
		}
		return to, true
	}
}

// text returns a shape that keeps a string if it is empty or pattern matches all of it.
func text(pattern string) Shape {
	re := regexp.MustCompile(`^(?:` + pattern + `)$`)
	return func(_ *Redactor, v any) (any, bool) {
		s, ok := v.(string)
		if ok && s != "" && (len(s) > 200 || !re.MatchString(s)) {
			s = Removed
		}
		return s, ok
	}
}

// words returns a shape that keeps a string if it is empty or one of the given words.
func words(all ...string) Shape {
	return func(_ *Redactor, v any) (any, bool) {
		s, ok := v.(string)
		if ok && s != "" && !slices.Contains(all, s) {
			s = Removed
		}
		return s, ok
	}
}

// alias returns a shape that replaces a name with its alias.
func alias(kind string) Shape {
	return func(r *Redactor, v any) (any, bool) {
		s, ok := v.(string)
		if ok && s != "" {
			s = r.Alias(kind, s)
		}
		return s, ok
	}
}

func number(_ *Redactor, v any) (any, bool) {
	n, ok := v.(json.Number)
	return v, ok && len(n) < 30 || v == nil
}

// yamlText returns a shape for strings that contain YAML. The given shape determines what is kept of the YAML.
func yamlText(shape Shape) Shape {
	return func(r *Redactor, v any) (any, bool) {
		text, ok := v.(string)
		kept, err := yaml.YAMLToJSON([]byte(text))
		if err == nil {
			kept, err = r.JSON(shape, kept)
		}
		if err != nil {
			return Phrases(errNotJSON.Error()), ok
		}
		return json.RawMessage(kept), ok
	}
}

func boolean(_ *Redactor, v any) (any, bool) {
	_, ok := v.(bool)
	return v, ok || v == nil
}

// Phrases reduces an error's text to the phrases that say what went wrong, and replaces the rest with [Removed].
func Phrases(text string) string {
	var found []string
	for _, p := range phrases {
		if strings.Contains(text, p) {
			found = append(found, p)
		}
	}
	if lacks := right.FindString(text); lacks != "" {
		found = append(found, lacks)
	}
	return strings.TrimSuffix(Removed+" "+strings.Join(found, ", "), " ")
}

var right = regexp.MustCompile(`cannot (get|list|create|delete) resource "(pods|pods/exec|pods/log|configmaps|nodes|resourceslices)"|needs the role accelerator-operate`)

func phrasesOf(_ *Redactor, v any) (any, bool) {
	s, ok := v.(string)
	if ok && s != "" {
		s = Phrases(s)
	}
	return s, ok
}

// Log returns the part of a daemon's log to keep: what the shape for log lines keeps of each line, and the code
// positions in crash reports.
func (r *Redactor) Log(log []byte) []byte {
	var out bytes.Buffer
	lost := 0
	note := func() {
		if lost > 0 {
			fmt.Fprintf(&out, "(%d lines removed)\n", lost)
		}
		lost = 0
	}
	for line := range bytes.Lines(log) {
		kept, ok := r.line(bytes.TrimSuffix(line, []byte("\n")))
		if !ok {
			lost++
			continue
		}
		note()
		out.Write(kept)
		out.WriteByte('\n')
	}
	note()
	return out.Bytes()
}

var (
	crash = regexp.MustCompile(`^(goroutine [0-9]{1,9} \[(running|select|syscall|runnable|sleep|IO wait|chan receive|chan send|sync\.[A-Za-z.]+)(, [0-9]{1,9} minutes)?\]:` +
		`|\t(b-com\.com/accelerator-device-plugin|runtime|google\.golang\.org/grpc|k8s\.io)(@[v0-9.]+)?/([a-z0-9_]+/){0,8}[a-z0-9_]+\.go:[0-9]{1,6}( \+0x[0-9a-f]{1,8})?)$`)
	event = words(eventNames()...)
)

func eventNames() (names []string) {
	for _, e := range logevent.Events() {
		names = append(names, e.Name)
	}
	return names
}

// line returns the part of a log line to keep.
func (r *Redactor) line(text []byte) (kept []byte, ok bool) {
	if crash.Match(text) {
		return text, true
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var fields map[string]any
	if len(text) > 64<<10 || d.Decode(&fields) != nil {
		return nil, false
	}
	if name, _ := event(r, fields["event"]); name == nil || name == "" || name == Removed {
		return nil, false
	}
	all, _ := logLine(r, fields)
	kept, err := json.Marshal(all)
	return kept, err == nil
}
