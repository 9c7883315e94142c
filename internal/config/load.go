package config

import (
	"bytes"
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
	text, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("config file: %w", err)
	}
	return l.loadYAML(path, bytes.NewReader(text))
}

// loadYAML reads one YAML mapping of settings.
func (l *Loader) loadYAML(name string, r io.Reader) error {
	root, err := document(name, r)
	if err != nil || root == nil {
		return err
	}
	file := &reading{name: name}
	file.each("", root, func(key, value *yaml.Node) {
		switch key.Value {
		case excludeKey:
			l.Config.Exclude = file.exclude(key, value)
		case healthKey:
			l.Config.Severity = file.health(key, value, newReasons(l.vocabulary))
		case resourcesKey:
			l.Config.Resources = file.resources(key, value, l.vocabulary.Families)
		default:
			if err := l.loadKey(key.Value, value); err != nil {
				file.refuse(key, "%w", err)
			}
		}
	})
	return errors.Join(file.errs...)
}

// loadKey takes a setting that flags and variables have, too.
func (l *Loader) loadKey(key string, value *yaml.Node) error {
	f := l.byKey(key)
	if f == nil {
		return fmt.Errorf("unknown key %q; allowed: %s", key, strings.Join(l.keys(), ", "))
	}
	values := []*yaml.Node{value}
	if f.Value.Type() == listType && value.Kind == yaml.SequenceNode {
		values = value.Content
	}
	if l.set[f.Name] {
		// Something stronger has set it. The file must be right all the same.
		f = New(Vocabulary{}).flags.Lookup(f.Name)
	} else {
		l.set[f.Name] = true
	}
	for _, v := range values {
		if v = resolve(v); !isValue(v) {
			return fmt.Errorf("%s: %s, want one value", key, found(v))
		}
		if err := f.Value.Set(v.Value); err != nil {
			return fmt.Errorf("%s: %q: %w", key, v.Value, err)
		}
	}
	return nil
}

func (l *Loader) byKey(key string) *pflag.Flag {
	var flag *pflag.Flag
	l.flags.VisitAll(func(f *pflag.Flag) {
		if keyOf(f) == key && f.Name != configFlag {
			flag = f
		}
	})
	return flag
}

// keys lists what the file may hold, sorted.
func (l *Loader) keys() []string {
	keys := []string{excludeKey, healthKey, resourcesKey}
	l.flags.VisitAll(func(f *pflag.Flag) {
		if f.Name != configFlag {
			keys = append(keys, keyOf(f))
		}
	})
	slices.Sort(keys)
	return keys
}

// keyOf turns resync-interval into resyncInterval. The key of a list is a plural.
func keyOf(f *pflag.Flag) string {
	words := strings.Split(f.Name, "-")
	if f.Value.Type() == listType {
		words = append(words[:len(words)-1], words[len(words)-1]+"s")
	}
	for i, w := range words[1:] {
		words[i+1] = strings.ToUpper(w[:1]) + w[1:]
	}
	return strings.Join(words, "")
}
