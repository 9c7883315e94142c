package config

import (
	"slices"

	"github.com/spf13/pflag"
)

// Again reads the file a second time, as [Loader.Load] did the first: the flags
// are those of the command line, variables come from lookup. It returns what a
// start would have now, and leaves l as it is. A running daemon takes over
// Exclude, Severity and Resources of it; the list names all other settings that
// differ from l.Config, by the names of their flags and sorted: those need a restart. Without a
// file there is nothing to read, and l.Config is returned.
//
// On an error, which is one of Load, the Config is empty: go on with the old one.
func (l *Loader) Again(lookup func(string) (string, bool)) (Config, []string, error) {
	if l.Config.File == "" {
		return l.Config, nil, nil
	}
	next := New(l.vocabulary)
	var err error
	take := func(flag, value string) {
		if err == nil {
			err = next.flags.Set(flag, value)
		}
	}
	l.flags.VisitAll(func(f *pflag.Flag) {
		if f.Changed {
			take(f.Name, f.Value.String())
		}
	})
	take(configFlag, l.Config.File) // a variable may have named it
	if err != nil {
		return Config{}, nil, err
	}
	if err := next.Load(lookup); err != nil {
		return Config{}, nil, err
	}
	return next.Config, l.differing(next), nil
}

// differing lists the flags of the settings whose values are not those of o.
// Exclude, Severity and Resources are no settings in that sense.
func (l *Loader) differing(o *Loader) []string {
	var names []string
	l.flags.VisitAll(func(f *pflag.Flag) {
		if f.Value.String() != o.flags.Lookup(f.Name).Value.String() {
			names = append(names, f.Name)
		}
	})
	slices.Sort(names)
	return names
}
