package config

import (
	"errors"
	"fmt"
	"io"
	"strconv"

	"go.yaml.in/yaml/v3"
)

// document parses the one YAML document of a file and returns its mapping, or
// nil where nothing is in it but comments.
func document(name string, r io.Reader) (*yaml.Node, error) {
	decoder := yaml.NewDecoder(r)
	var doc yaml.Node
	switch err := decoder.Decode(&doc); {
	case errors.Is(err, io.EOF):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("%s: not YAML: %w", name, err)
	}
	switch err := decoder.Decode(new(yaml.Node)); {
	case err == nil:
		return nil, fmt.Errorf("%s: more than one YAML document; want one mapping of settings", name)
	case !errors.Is(err, io.EOF):
		return nil, fmt.Errorf("%s: not YAML: %w", name, err)
	}
	root := doc.Content[0]
	if isNull(root) {
		return nil, nil
	}
	if root.Kind != yaml.MappingNode {
		return nil, fmt.Errorf("%s:%d: not a mapping; want lines such as \"resyncInterval: 60s\"", name, root.Line)
	}
	return root, nil
}

// reading is one pass over a file. It goes on after an error, so that an administrator
// hears of all of them at once.
type reading struct {
	name string
	errs []error
}

// refuse notes an error with the line that it is about.
func (r *reading) refuse(at *yaml.Node, format string, args ...any) {
	r.errs = append(r.errs, fmt.Errorf("%s:%d: %w", r.name, at.Line, fmt.Errorf(format, args...)))
}

// each calls take with every key of a mapping and what stands there as its value.
// Keys that are no words, or were there before, are refused; prefix is what they
// are called by in that, such as "health.".
func (r *reading) each(prefix string, mapping *yaml.Node, take func(key, value *yaml.Node)) {
	first := make(map[string]int) // line by key
	for i := 0; i+1 < len(mapping.Content); i += 2 {
		key, value := mapping.Content[i], mapping.Content[i+1]
		// An alias is a word, too, but its own name and not the one that it stands for.
		if key.Kind != yaml.ScalarNode {
			r.refuse(key, "%skey: want a word, found %s", prefix, found(key))
			continue
		}
		if line, twice := first[key.Value]; twice {
			r.refuse(key, "%s%s: given twice, first on line %d", prefix, key.Value, line)
			continue
		}
		first[key.Value] = key.Line
		take(key, resolve(value))
	}
}

// resolve returns what an alias stands for, and any other node as it is. An alias
// cannot stand for another one.
func resolve(n *yaml.Node) *yaml.Node {
	if n.Kind == yaml.AliasNode {
		return n.Alias
	}
	return n
}

// isValue says whether a node is one value, which null is not.
func isValue(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && !isNull(n) }

func isNull(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.Tag == "!!null" }

// found says what a node is, to someone who wanted something else.
func found(n *yaml.Node) string {
	switch {
	case n.Kind == yaml.MappingNode:
		return "a mapping"
	case n.Kind == yaml.SequenceNode:
		return "a list"
	case n.Kind == yaml.AliasNode:
		return "an alias"
	case isValue(n):
		return strconv.Quote(n.Value)
	}
	return "nothing"
}
