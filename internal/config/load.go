package config

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"
)

// Load completes the configuration after the flags were parsed: variables from
// lookup (os.LookupEnv), then the YAML file, each for settings that nothing
// before has set. An error names the source, the setting, the value that was
// found and what is allowed.
func (l *Loader) Load(lookup func(string) (string, bool)) error {
	l.flags.VisitAll(func(f *pflag.Flag) { l.set[f.Name] = f.Changed })
	if err := l.loadVariables(lookup); err != nil {
		return err
	}
	if err := l.loadFile(l.Config.File); err != nil {
		return err
	}
	return l.Config.settle()
}

func (l *Loader) loadVariables(lookup func(string) (string, bool)) error {
	var errs []error
	l.flags.VisitAll(func(f *pflag.Flag) {
		variable := "ACCELERATOR_" + strings.ToUpper(strings.ReplaceAll(f.Name, "-", "_"))
		value, ok := lookup(variable)
		if !ok || l.set[f.Name] {
			return
		}
		if err := f.Value.Set(value); err != nil {
			errs = append(errs, fmt.Errorf("%s=%q: %w", variable, value, err))
		}
		l.set[f.Name] = true
	})
	return errors.Join(errs...)
}

func (l *Loader) loadFile(path string) error {
	if path == "" {
		return nil
	}
	f, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("config file: %w", err)
	}
	defer f.Close()
	return l.loadYAML(path, f)
}

// loadYAML reads one YAML mapping of settings.
func (l *Loader) loadYAML(name string, r io.Reader) error {
	decoder := yaml.NewDecoder(r)
	var doc yaml.Node
	switch err := decoder.Decode(&doc); {
	case errors.Is(err, io.EOF):
		return nil // an empty file sets nothing
	case err != nil:
		return fmt.Errorf("%s: not YAML: %w", name, err)
	}
	switch err := decoder.Decode(new(yaml.Node)); {
	case err == nil:
		return fmt.Errorf("%s: more than one YAML document; want one mapping of settings", name)
	case !errors.Is(err, io.EOF):
		return fmt.Errorf("%s: not YAML: %w", name, err)
	}
	root := doc.Content[0]
	if root.Kind == yaml.ScalarNode && root.Tag == "!!null" {
		return nil // only comments
	}
	if root.Kind != yaml.MappingNode {
		return fmt.Errorf("%s:%d: not a mapping; want lines such as \"resyncInterval: 60s\"", name, root.Line)
	}
	var errs []error
	seen := make(map[string]bool)
	for i := 0; i+1 < len(root.Content); i += 2 {
		key, value := root.Content[i], root.Content[i+1]
		if seen[key.Value] {
			errs = append(errs, fmt.Errorf("%s:%d: %s: given twice", name, key.Line, key.Value))
			continue
		}
		seen[key.Value] = true
		if err := l.loadKey(key, value); err != nil {
			errs = append(errs, fmt.Errorf("%s:%d: %w", name, key.Line, err))
		}
	}
	return errors.Join(errs...)
}

func (l *Loader) loadKey(key, value *yaml.Node) error {
	f := l.byKey(key.Value)
	if f == nil {
		return fmt.Errorf("unknown key %q; allowed: %s", key.Value, strings.Join(l.keys(), ", "))
	}
	if value.Kind == yaml.AliasNode {
		value = value.Alias
	}
	if value.Kind != yaml.ScalarNode || value.Tag == "!!null" {
		return fmt.Errorf("%s: want one value, found %s", key.Value, kindOf(value))
	}
	if l.set[f.Name] {
		// Something stronger has set it. The file must be right all the same.
		f = New().flags.Lookup(f.Name)
	} else {
		l.set[f.Name] = true
	}
	if err := f.Value.Set(value.Value); err != nil {
		return fmt.Errorf("%s: %q: %w", key.Value, value.Value, err)
	}
	return nil
}

func (l *Loader) byKey(key string) *pflag.Flag {
	var found *pflag.Flag
	l.flags.VisitAll(func(f *pflag.Flag) {
		if keyOf(f.Name) == key && f.Name != "config" {
			found = f
		}
	})
	return found
}

func (l *Loader) keys() []string {
	var keys []string
	l.flags.VisitAll(func(f *pflag.Flag) {
		if f.Name != "config" {
			keys = append(keys, keyOf(f.Name))
		}
	})
	slices.Sort(keys)
	return keys
}

// keyOf turns resync-interval into resyncInterval.
func keyOf(flag string) string {
	words := strings.Split(flag, "-")
	for i, w := range words[1:] {
		words[i+1] = strings.ToUpper(w[:1]) + w[1:]
	}
	return strings.Join(words, "")
}

func kindOf(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "a mapping"
	case yaml.SequenceNode:
		return "a list"
	}
	return "nothing"
}
