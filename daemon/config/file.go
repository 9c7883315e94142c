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

// Files are parsed into YAML nodes instead of a struct, for three reasons. As with flags and variables, only a value's
// text matters, not its YAML type (1e10 may be four hex digits). The settings and their checks are already in the table
// of flags. And our errors give the location and the allowed values, whereas the library's errors refer to Go types.

// Limits for a file. They are needed because with aliases, even a short file can contain many values, each of which may
// be wrong.
const (
	mostErrors = 20
	mostText   = 2000 // length of an error in bytes
	mostValues = 100_000
)

// setter sets a variable to a value from a file, and returns everything that's wrong with the value.
type setter func(n *yaml.Node) []problem

// problem is an error in a file. path consists of the keys that lead to the error from the value passed to the setter.
type problem struct {
	line       int
	path, text string
}

func wrong(n *yaml.Node, format string, args ...any) []problem {
	return []problem{{n.Line, "", fmt.Sprintf(format, args...)}}
}

// reloadable holds the settings from files that can change without a restart of the daemon.
type reloadable struct {
	exclude   map[string]bool
	severity  map[string]string
	resources []offer.Rule
}

// reloadable returns the setters for the settings in p, keyed by the settings' keys in the file.
func (v Vocabulary) reloadable(p *reloadable) map[string]setter {
	return map[string]setter{
		"exclude":   list("a list of PCI addresses", exclude(p)),
		"health":    object(map[string]setter{"severity": object(v.severities(p))}),
		"resources": list("a list of rules with name and match", v.rule(p)),
	}
}

// exclude returns a setter that excludes a card or a port.
func exclude(p *reloadable) setter {
	lines := make(map[string]int) // by address
	return func(n *yaml.Node) []problem {
		var address string
		if errs := one(value[string]{&address, device})(n); errs != nil {
			return errs
		}
		if line := lines[address]; line > 0 {
			return wrong(n, "found %q twice, first on line %d, want it once", n.Value, line)
		}
		lines[address] = n.Line
		if p.exclude == nil {
			p.exclude = make(map[string]bool)
		}
		p.exclude[address] = true
		return nil
	}
}

// severities returns setters for the rows of the health table. The keys are NAME or NAME=VALUE; NAME applies to all
// rows with this name.
func (v Vocabulary) severities(p *reloadable) map[string]setter {
	known := make(map[string]setter)
	for _, row := range v.Rows {
		name, _, _ := strings.Cut(row, "=")
		for _, reason := range []string{name, row} {
			known[reason] = func(n *yaml.Node) []problem {
				if p.severity == nil {
					p.severity = make(map[string]string)
				}
				text := ""
				errs := one(value[string]{&text, oneOf(Fatal, Degraded, Ignored)})(n)
				p.severity[reason] = text
				return errs
			}
		}
	}
	return known
}

// rule returns a setter that appends a rule for resource names. The order of rules matters, because the first rule that
// matches a device determines its resource.
func (v Vocabulary) rule(p *reloadable) setter {
	lines := make(map[offer.Match]int)
	return func(n *yaml.Node) []problem {
		var rule offer.Rule
		name := one(value[string]{&rule.Resource, resourceName})
		if errs := object(map[string]setter{"name": name, "match": v.match(&rule.Match)}, "name", "match")(n); errs != nil {
			return errs
		}
		// A rule is accepted even if an earlier one matches all of its devices, because the earlier one may be removed
		// later. `devices -o wide` lists rules that don't apply to any device.
		if line := lines[rule.Match]; line > 0 {
			return wrong(n, "found the match twice, first on line %d, want it once: this rule is never used", line)
		}
		lines[rule.Match] = n.Line
		p.resources = append(p.resources, rule)
		return nil
	}
}

// match returns a setter for a rule's match, which says which devices the rule applies to.
func (v Vocabulary) match(m *offer.Match) setter {
	text := func(p *string, k kind[string]) setter {
		return func(n *yaml.Node) []problem {
			if *p != "" {
				return wrong(n, "found it under another name, too, want pciVendor or vendor, and pciDevice or device")
			}
			return one(value[string]{p, k})(n)
		}
	}
	known := map[string]setter{
		"afuId":            text(&m.AFUID, guid),
		"device":           text(&m.PCIDevice, fourDigits),
		"family":           text(&m.Family, oneOf(v.Families...)),
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
	return func(n *yaml.Node) []problem {
		if n.Kind != yaml.MappingNode || len(n.Content) == 0 {
			return refuse(n, "a mapping with at least one of "+allowed(known, ""))
		}
		return object(known)(n)
	}
}

// readConfig parses the configuration file into c. A setting whose flag has already been set keeps its value; the value
// in the file is only checked.
func (c *Config) readConfig(from contents, set *pflag.FlagSet, v Vocabulary) error {
	var p reloadable
	known := v.reloadable(&p)
	unused := settings(new(Config), v.Families)
	set.VisitAll(func(flag *pflag.Flag) {
		to := flag.Value
		if flag.Changed {
			to = unused.Lookup(flag.Name).Value
		}
		known[keyOf(flag)] = func(n *yaml.Node) []problem {
			flag.Changed = true
			switch items := n.Kind == yaml.SequenceNode; {
			case items && flag.Value.Type() == listType:
				return list("", one(to))(n)
			case items && flag.Value.Type() == familiesType:
				var names []string
				for _, name := range n.Content {
					names = append(names, name.Value)
				}
				return one(to)(&yaml.Node{Kind: yaml.ScalarNode, Line: n.Line, Value: strings.Join(names, ",")})
			}
			return one(to)(n)
		}
	})
	delete(known, configFlag)
	delete(known, overridesFlag)
	err := from.parse(object(known))
	c.Exclude, c.Severity, c.Resources = p.exclude, p.severity, p.resources
	return err
}

// readOverrides parses the overrides into c, first those for all nodes and then those for the given node. Overrides for
// other nodes are only checked.
func (c *Config) readOverrides(from contents, node string, v Vocabulary) error {
	var all, own reloadable
	known := v.reloadable(&all)
	known["nodes"] = func(n *yaml.Node) []problem {
		if n.Kind != yaml.MappingNode && !isNull(n) {
			return refuse(n, "a mapping from names of nodes")
		}
		c.NodesUnused = node == "" && len(n.Content) > 0
		return entries(n, func(name string) (setter, string) {
			if _, err := nodeName.parse(name); err != nil {
				return nil, fmt.Sprintf("found %q, %v", name, err)
			}
			to := new(reloadable)
			if name == node {
				to = &own
			}
			return object(v.reloadable(to)), ""
		})
	}
	err := from.parse(object(known))
	c.override(all)
	c.override(own)
	return err
}

// override applies p, which takes precedence over the settings in c. It replaces c's maps and list rather than
// modifying them.
func (c *Config) override(p reloadable) {
	c.Exclude, c.Severity = union(c.Exclude, p.exclude), union(c.Severity, p.severity)
	rules := slices.Clone(p.resources)
	for _, below := range c.Resources { // omit rules whose match is also in p, because they would never be used
		if !slices.ContainsFunc(p.resources, func(r offer.Rule) bool { return r.Match == below.Match }) {
			rules = append(rules, below)
		}
	}
	c.Resources = rules
}

// union returns the entries of both maps. If a key is in both, the second map's value is used.
func union[V any](under, over map[string]V) map[string]V {
	if over == nil {
		return under
	}
	all := make(map[string]V, len(under)+len(over))
	maps.Copy(all, under)
	maps.Copy(all, over)
	return all
}

// keyOf returns the key for a flag in the file, such as resyncInterval for resync-interval. Keys for lists are plural.
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

// parse parses the file's YAML document, if there is one. More than one document is an error. If a value is wrong,
// parse continues, so that the administrator sees all errors at once (up to mostErrors).
func (t contents) parse(root setter) error {
	if t.err != nil {
		return t.err
	}
	decoder := yaml.NewDecoder(strings.NewReader(t.text))
	var document, second yaml.Node
	err := decoder.Decode(&document)
	if err == nil {
		err = decoder.Decode(&second)
	}
	switch {
	case err == nil:
		return fmt.Errorf("%s:%d: found a second YAML document, want one", t.path, second.Line)
	case !errors.Is(err, io.EOF):
		return fmt.Errorf("%s: not YAML: %w", t.path, err)
	case document.IsZero():
		return nil
	}
	left := mostValues
	whole, err := expanded(document.Content[0], &left)
	if err != nil {
		return fmt.Errorf("%s:%d: %w", t.path, document.Line, err)
	}
	if isNull(whole) {
		return nil
	}
	var errs []error
	problems := root(whole)
	for _, p := range problems[:min(len(problems), mostErrors)] {
		text := strings.TrimPrefix(p.path+": "+p.text, ": ")
		if len(text) > mostText { // a value may be as long as the file
			text = strings.ToValidUTF8(text[:mostText], "") + "…"
		}
		errs = append(errs, fmt.Errorf("%s:%d: %s", t.path, p.line, text))
	}
	if more := len(problems) - mostErrors; more > 0 {
		errs = append(errs, fmt.Errorf("%s: and %d more errors", t.path, more))
	}
	return errors.Join(errs...)
}

// expanded returns a copy of a node in which aliases are replaced by what they refer to. Each use of an alias counts
// toward the limit and keeps its own line number. A key's value gets the key's line number.
func expanded(n *yaml.Node, left *int) (*yaml.Node, error) {
	if *left--; *left < 0 {
		return nil, fmt.Errorf("found more than %d values (each use of an alias counts), want at most %[1]d", mostValues)
	}
	line := n.Line
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	whole := *n
	whole.Line, whole.Content = line, nil
	for i, child := range n.Content {
		child, err := expanded(child, left)
		if err != nil {
			return nil, err
		}
		if n.Kind == yaml.MappingNode && i%2 == 1 {
			child.Line = whole.Content[i-1].Line
		}
		whole.Content = append(whole.Content, child)
	}
	return &whole, nil
}

// one returns a setter for a single value.
func one(to pflag.Value) setter {
	return func(n *yaml.Node) []problem {
		if n.Kind != yaml.ScalarNode || isNull(n) {
			return refuse(n, "one value")
		}
		if err := to.Set(n.Value); err != nil {
			return wrong(n, "found %s, %v", found(n), err)
		}
		return nil
	}
}

// list returns a setter for a list. A key without a value counts as an empty list, because when the last item is
// removed, the key often stays in the file. The same goes for mappings.
func list(want string, item setter) setter {
	return func(n *yaml.Node) (errs []problem) {
		if n.Kind != yaml.SequenceNode && !isNull(n) {
			return refuse(n, want)
		}
		for _, child := range n.Content {
			errs = append(errs, item(child)...)
		}
		return errs
	}
}

// object returns a setter for a mapping that may contain the known keys and must contain the required ones.
func object(known map[string]setter, required ...string) setter {
	return func(n *yaml.Node) []problem {
		if n.Kind != yaml.MappingNode && !(isNull(n) && required == nil) {
			return refuse(n, "a mapping with "+allowed(known, ""))
		}
		errs := entries(n, func(key string) (setter, string) {
			if set := known[key]; set != nil {
				return set, ""
			}
			return nil, fmt.Sprintf("found the key %q, want one of %s", key, allowed(known, key))
		})
		for _, key := range required {
			if !slices.ContainsFunc(slices.Collect(slices.Chunk(n.Content, 2)), func(entry []*yaml.Node) bool { return entry[0].Value == key }) {
				errs = append(errs, wrong(n, "found no key %q, want %s", key, allowed(known, ""))...)
			}
		}
		return errs
	}
}

// entries sets the values in a mapping. of returns the setter for a key, or what's wrong with the key.
func entries(n *yaml.Node, of func(key string) (setter, string)) (errs []problem) {
	lines := make(map[string]int)
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		if key.Kind != yaml.ScalarNode {
			errs = append(errs, refuse(key, "a string as a key")...)
			continue
		}
		set, refusal := of(key.Value)
		var inside []problem
		switch {
		case lines[key.Value] > 0:
			inside = wrong(key, "found twice, first on line %d, want it once", lines[key.Value])
		case set == nil:
			errs = append(errs, problem{key.Line, "", refusal})
		default:
			inside = set(value)
		}
		for _, p := range inside {
			p.path = strings.TrimSuffix(key.Value+"."+p.path, ".")
			errs = append(errs, p)
		}
		lines[key.Value] = key.Line
	}
	return errs
}

// allowed lists the known keys, for use in an error. key is the key that was found, or "" if the error isn't about a
// key. Because there are many keys of the form REASON=VALUE, allowed only lists those with the same reason as key.
func allowed(known map[string]setter, key string) string {
	reason, _, _ := strings.Cut(key, "=")
	keys := slices.DeleteFunc(slices.Sorted(maps.Keys(known)), func(k string) bool {
		name, _, hasValue := strings.Cut(k, "=")
		return hasValue && name != reason
	})
	return strings.Join(keys, ", ")
}

// refuse returns an error that says that n was found instead of want.
func refuse(n *yaml.Node, want string) []problem {
	return wrong(n, "found %s, want %s", found(n), want)
}

func isNull(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.Tag == "!!null" }

// found describes a node, for use in errors.
func found(n *yaml.Node) string {
	switch {
	case n.Kind == yaml.MappingNode && len(n.Content) == 0:
		return "an empty mapping"
	case n.Kind == yaml.MappingNode:
		return "a mapping"
	case n.Kind == yaml.SequenceNode:
		return "a list"
	case isNull(n):
		return "nothing"
	}
	return strconv.Quote(n.Value)
}
