package config

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"

	"b-com.com/accelerator-device-plugin/offer"
)

// file is a YAML file. It is parsed into nodes and not into a struct, for three reasons. The text of a
// value counts, as in flags and variables, and not its YAML type (1e10 may be four hex digits). A value
// has the same check as its flag. And errors have the allowed values, where the library's errors have Go
// types.
//
// Parsing continues after an error, so that an administrator gets all errors at once, up to mostErrors.
type file struct {
	name    string
	vocab   Vocabulary
	errs    []error
	omitted int // number of errors after the first mostErrors
	values  int // number of values so far
}

// Limits for a file. With aliases a short file can have many values, and each may have an error.
const (
	mostErrors = 20
	mostText   = 2000 // bytes of an error
	mostValues = 100_000
)

// policy has the settings that can change without a restart of the daemon.
type policy struct {
	exclude   map[string]bool
	severity  map[string]string
	resources []offer.Rule
}

// policyFields returns the keys of a policy, with functions that set the fields of p.
func (f *file) policyFields(p *policy) fields {
	return fields{
		"exclude": func(where string, n *yaml.Node) { p.exclude = f.exclude(where, n) },
		"health": func(where string, n *yaml.Node) {
			f.mapping(where, n, fields{"severity": func(where string, n *yaml.Node) {
				p.severity = f.severity(where, n, f.vocab.Rows)
			}})
		},
		"resources": func(where string, n *yaml.Node) { p.resources = f.resources(where, n, f.vocab.Families) },
	}
}

// readConfig parses the configuration file into c. A setting whose flag in set was changed keeps its
// value; the value in the file is only checked.
func (c *Config) readConfig(from contents, set *pflag.FlagSet, v Vocabulary) error {
	root, err := from.document()
	if err != nil || isNull(root) {
		return err
	}
	f := &file{name: from.path, vocab: v}
	var p policy
	known := f.policyFields(&p)
	unused := settings(new(Config), v.Families)
	set.VisitAll(func(flag *pflag.Flag) {
		to := flag.Value
		if flag.Changed {
			to = unused.Lookup(flag.Name).Value
		}
		known[keyOf(flag)] = func(where string, n *yaml.Node) {
			switch list := n.Kind == yaml.SequenceNode; {
			case list && flag.Value.Type() == listType:
				f.list(where, n, "", func(n *yaml.Node) { f.value(where, n, to) })
			case list && flag.Value.Type() == familiesType:
				f.families(where, n, to)
			default:
				f.value(where, n, to)
			}
			flag.Changed = true
		}
	})
	delete(known, configFlag)
	delete(known, overridesFlag)
	f.mapping("", root, known)
	c.Exclude, c.Severity, c.Resources = p.exclude, p.severity, p.resources
	return f.err()
}

// readOverrides parses the overrides into c: first those of all nodes, then those of the named node. The
// overrides of other nodes are only checked.
func (c *Config) readOverrides(from contents, node string, v Vocabulary) error {
	root, err := from.document()
	if err != nil || isNull(root) {
		return err
	}
	f := &file{name: from.path, vocab: v}
	var all, own policy
	known := f.policyFields(&all)
	known["nodes"] = func(where string, n *yaml.Node) {
		if n.Kind != yaml.MappingNode && !isNull(n) {
			f.refuse(n, where, "a mapping from names of nodes")
			return
		}
		c.NodesUnused = node == "" && len(n.Content) > 0
		f.entries(where, n, func(path string, key, value *yaml.Node) {
			if _, err := nodeName.parse(key.Value); err != nil {
				f.errorf(key, "%s: found %q, %v", where, key.Value, err)
				return
			}
			to := new(policy)
			if key.Value == node {
				to = &own
			}
			f.mapping(path, value, f.policyFields(to))
		})
	}
	f.mapping("", root, known)
	c.override(all)
	c.override(own)
	return f.err()
}

// override applies p with precedence over the settings of c. It makes new maps and a new list.
func (c *Config) override(p policy) {
	if p.exclude != nil {
		c.Exclude = union(c.Exclude, p.exclude)
	}
	if p.severity != nil {
		c.Severity = union(c.Severity, p.severity)
	}
	if p.resources == nil {
		return
	}
	rules := slices.Clone(p.resources)
	for _, below := range c.Resources { // except rules with the match of a rule of p: they would never be used
		if !slices.ContainsFunc(p.resources, func(r offer.Rule) bool { return r.Match == below.Match }) {
			rules = append(rules, below)
		}
	}
	c.Resources = rules
}

// union returns the entries of both maps. If both have a key, the value is that of over.
func union[V any](under, over map[string]V) map[string]V {
	all := make(map[string]V, len(under)+len(over))
	maps.Copy(all, under)
	maps.Copy(all, over)
	return all
}

// err returns all errors, or nil.
func (f *file) err() error {
	if f.omitted > 0 {
		return errors.Join(append(f.errs, fmt.Errorf("%s: and %d more errors", f.name, f.omitted))...)
	}
	return errors.Join(f.errs...)
}

// keyOf returns the key of a flag, such as resyncInterval for resync-interval. The key of a list is a
// plural.
func keyOf(f *pflag.Flag) string {
	words := strings.Split(f.Name, "-")
	for i, w := range words[1:] {
		words[i+1] = strings.ToUpper(w[:1]) + w[1:]
	}
	key := strings.Join(words, "")
	if f.Value.Type() == listType {
		key += "s"
	}
	return key
}

// families sets a variable to the names of families in a list.
func (f *file) families(where string, n *yaml.Node, to pflag.Value) {
	var names []string
	before := len(f.errs)
	f.list(where, n, "", func(n *yaml.Node) {
		var name string
		f.value(where, n, value[string]{&name, oneOf(f.vocab.Families...)})
		names = append(names, name)
	})
	if len(f.errs) == before {
		f.value(where, &yaml.Node{Kind: yaml.ScalarNode, Line: n.Line, Value: strings.Join(names, ",")}, to)
	}
}

// exclude parses a list of cards and ports.
func (f *file) exclude(where string, n *yaml.Node) (excluded map[string]bool) {
	lines := make(map[string]int) // by address
	f.list(where, n, "a list of PCI addresses", func(n *yaml.Node) {
		var address string
		if !f.value(where, n, value[string]{&address, device}) {
			return
		}
		if lines[address] > 0 {
			f.errorf(n, "%s: found %q twice, first on line %d, want it once", where, n.Value, lines[address])
			return
		}
		lines[address] = n.Line
		if excluded == nil {
			excluded = make(map[string]bool)
		}
		excluded[address] = true
	})
	return excluded
}

// severity parses a mapping from reasons to severities. A reason is a row of the health table, NAME or
// NAME=VALUE. NAME alone applies to all its rows.
func (f *file) severity(where string, n *yaml.Node, rows []string) (severity map[string]string) {
	known := make(fields)
	for _, row := range rows {
		name, _, _ := strings.Cut(row, "=")
		for _, reason := range []string{name, row} {
			known[reason] = func(where string, n *yaml.Node) {
				var text string
				f.value(where, n, value[string]{&text, oneOf(Fatal, Degraded, Ignored)})
				if severity == nil {
					severity = make(map[string]string)
				}
				severity[reason] = text
			}
		}
	}
	f.mapping(where, n, known)
	return severity
}

// resources parses the rules for names of resources. Their order matters: the first rule that matches a
// device names its resource.
func (f *file) resources(where string, n *yaml.Node, families []string) (rules []offer.Rule) {
	lines := make(map[offer.Match]int)
	f.list(where, n, "a list of rules with name and match", func(n *yaml.Node) {
		before := len(f.errs)
		rule := f.rule(where, n, families)
		if len(f.errs) > before {
			return
		}
		// A rule that matches only devices of an earlier rule is accepted: the earlier one may be
		// removed later. `devices -o wide` lists rules that apply to no device.
		if line, twice := lines[rule.Match]; twice {
			f.errorf(n, "%s: found the match twice, first on line %d, want it once: this rule is never used", where, line)
			return
		}
		lines[rule.Match] = n.Line
		rules = append(rules, rule)
	})
	return rules
}

// rule parses one rule. It is not valid if an error was added.
func (f *file) rule(where string, n *yaml.Node, families []string) (rule offer.Rule) {
	m := &rule.Match
	text := func(p *string, k kind[string]) func(string, *yaml.Node) {
		return func(where string, n *yaml.Node) { f.value(where, n, value[string]{p, k}) }
	}
	match := fields{
		"afuId":            text(&m.AFUID, guid),
		"device":           text(&m.PCIDevice, fourDigits),
		"family":           text(&m.Family, oneOf(families...)),
		"interfaceId":      text(&m.InterfaceID, guid),
		"pciAddress":       text(&m.PCIAddress, card),
		"pciDevice":        text(&m.PCIDevice, fourDigits),
		"pciVendor":        text(&m.PCIVendor, fourDigits),
		"physicalFunction": text(&m.PhysicalFunction, card),
		"subsystem":        text(&m.Subsystem, twoIDs),
		"vbnv":             text(&m.VBNV, vbnv),
		"vendor":           text(&m.PCIVendor, fourDigits),
		"virtualFunction":  text(&m.VirtualFunction, functionIndex),
	}
	f.mapping(where, n, fields{
		"name": text(&rule.Resource, resourceName),
		"match": func(where string, n *yaml.Node) {
			if n.Kind != yaml.MappingNode || len(n.Content) == 0 {
				f.refuse(n, where, "a mapping with at least one of "+strings.Join(slices.Sorted(maps.Keys(match)), ", "))
				return
			}
			lines := f.mapping(where, n, match)
			for _, same := range [][2]string{{"pciVendor", "vendor"}, {"pciDevice", "device"}} {
				if lines[same[0]] > 0 && lines[same[1]] > 0 {
					f.errorf(n, "%s: found both %s and %s, want one of them: they are the same", where, same[0], same[1])
				}
			}
		},
	}, "name", "match")
	return rule
}

// document returns the root of the YAML document in a file. More than one document is an error.
func (t contents) document() (*yaml.Node, error) {
	if t.err != nil {
		return nil, t.err
	}
	root := new(yaml.Node)
	for decoder := yaml.NewDecoder(strings.NewReader(t.text)); ; {
		var document yaml.Node
		switch err := decoder.Decode(&document); {
		case errors.Is(err, io.EOF):
			return root, nil
		case err != nil:
			return nil, fmt.Errorf("%s: not YAML: %w", t.path, err)
		case root.Line > 0:
			return nil, fmt.Errorf("%s:%d: found a second YAML document, want one", t.path, document.Line)
		}
		root = document.Content[0]
	}
}

// errorf adds an error about the line of n. The text begins with the path of n, which is "" for the root.
func (f *file) errorf(n *yaml.Node, format string, args ...any) {
	if len(f.errs) == mostErrors {
		f.omitted++
		return
	}
	text := strings.TrimPrefix(fmt.Sprintf(format, args...), ": ")
	if len(text) > mostText { // a value may be as long as the file
		text = strings.ToValidUTF8(text[:mostText], "") + "…"
	}
	f.errs = append(f.errs, fmt.Errorf("%s:%d: %s", f.name, n.Line, text))
}

// refuse adds the error that n was found instead of want.
func (f *file) refuse(n *yaml.Node, where, want string) {
	f.errorf(n, "%s: found %s, want %s", where, found(n), want)
}

// value sets a variable to the value in the file, and reports whether the value is valid.
func (f *file) value(where string, n *yaml.Node, to pflag.Value) bool {
	if n.Kind != yaml.ScalarNode || isNull(n) {
		f.refuse(n, where, "one value")
		return false
	}
	err := to.Set(n.Value)
	if err != nil {
		f.errorf(n, "%s: found %s, %v", where, found(n), err)
	}
	return err == nil
}

// list calls take for each item of a list. A key without a value counts as an empty list: the key often
// stays in the file when the last item is removed. The same holds for mappings.
func (f *file) list(where string, n *yaml.Node, want string, take func(*yaml.Node)) {
	if n.Kind != yaml.SequenceNode && !isNull(n) {
		f.refuse(n, where, want)
		return
	}
	for _, item := range n.Content {
		if f.tooMany(item) {
			return
		}
		take(resolve(item, item.Line))
	}
}

// fields has a function for each key that a mapping may have. The function gets the path of the key, and
// the value with the line number of the key.
type fields map[string]func(where string, n *yaml.Node)

// allowed returns the allowed keys for an error about a key, or about a missing key (""). Of keys of the
// form REASON=VALUE it returns only those with the reason in key, because there are many.
func (known fields) allowed(key string) string {
	reason, _, _ := strings.Cut(key, "=")
	var keys []string
	for k := range known {
		if name, _, hasValue := strings.Cut(k, "="); !hasValue || name == reason {
			keys = append(keys, k)
		}
	}
	slices.Sort(keys)
	return strings.Join(keys, ", ")
}

// mapping parses a mapping with these fields. Some of them may be required. It returns the line numbers of
// the keys.
func (f *file) mapping(where string, n *yaml.Node, known fields, required ...string) (lines map[string]int) {
	want := known.allowed("")
	if n.Kind != yaml.MappingNode && !(isNull(n) && required == nil) {
		f.refuse(n, where, "a mapping with "+want)
		return nil
	}
	lines = f.entries(where, n, func(path string, key, value *yaml.Node) {
		if read, ok := known[key.Value]; ok {
			read(path, value)
		} else {
			f.errorf(key, "%s: found the key %q, want one of %s", where, key.Value, known.allowed(key.Value))
		}
	})
	for _, key := range required {
		if lines[key] == 0 {
			f.errorf(n, "%s: found no key %q, want %s", where, key, want)
		}
	}
	return lines
}

// entries calls take for each entry of a mapping, with the path of its key, the key, and the value with
// the line number of the key. It returns the line numbers of the keys.
func (f *file) entries(where string, n *yaml.Node, take func(path string, key, value *yaml.Node)) map[string]int {
	lines := make(map[string]int)
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := n.Content[i]
		if f.tooMany(key) {
			break
		}
		switch path := strings.TrimPrefix(where+"."+key.Value, "."); {
		case key.Kind != yaml.ScalarNode: // key.Value of an alias is its name, not the value of its anchor
			f.refuse(key, where, "a string as a key")
		case lines[key.Value] > 0:
			f.errorf(key, "%s: found twice, first on line %d, want it once", path, lines[key.Value])
		default:
			take(path, key, resolve(n.Content[i+1], key.Line))
		}
		lines[key.Value] = key.Line
	}
	return lines
}

// tooMany counts a value, and reports whether the file has more than mostValues.
func (f *file) tooMany(n *yaml.Node) bool {
	f.values++
	if f.values == mostValues+1 {
		f.errorf(n, "found more than %d values (each use of an alias counts), want at most %[1]d", mostValues)
	}
	return f.values > mostValues
}

// resolve returns the target of an alias, or the node itself, with this line number. The target is never
// an alias.
func resolve(n *yaml.Node, line int) *yaml.Node {
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	resolved := *n
	resolved.Line = line
	return &resolved
}

func isNull(n *yaml.Node) bool { return n.IsZero() || n.Kind == yaml.ScalarNode && n.Tag == "!!null" }

// found describes a node for errors.
func found(n *yaml.Node) string {
	switch {
	case n.Kind == yaml.MappingNode && len(n.Content) == 0:
		return "an empty mapping"
	case n.Kind == yaml.MappingNode:
		return "a mapping"
	case n.Kind == yaml.SequenceNode:
		return "a list"
	case n.Kind == yaml.AliasNode:
		return "an alias"
	case isNull(n):
		return "nothing"
	}
	return strconv.Quote(n.Value)
}
