package config

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/pflag"

	"b-com.com/accelerator-device-plugin/server/peers"
)

// Loader fills a [Config] from flags, variables and a file.
type Loader struct {
	Config     Config
	Files      Files // that Config was read from
	vocabulary Vocabulary
	flags      *pflag.FlagSet // of Config; changed: given by a flag or a variable
	set        *pflag.FlagSet // of the Config that was read last; changed: given at all
}

// Vocabulary has the names that a file may have.
type Vocabulary struct {
	Families []string // for rules for resources
	Rows     []string // of the families' health tables, NAME or NAME=VALUE, whose severity may be overruled
}

// New returns a loader that has the defaults.
func New(v Vocabulary) *Loader {
	l := &Loader{vocabulary: v}
	l.flags = settings(&l.Config)
	l.set = l.flags
	return l
}

// AddFlags adds a flag for each setting to fs. Every command has all of them, so that a user can
// use the same flags with each command.
func (l *Loader) AddFlags(fs *pflag.FlagSet) { fs.AddFlagSet(l.flags) }

// IsSet reports whether a setting, by the name of its flag, was given a value.
func (l *Loader) IsSet(name string) bool { return l.set.Changed(name) }

// Variables completes the configuration after the flags were parsed: with variables from lookup
// (os.LookupEnv), for settings that were not given before. An error names the source, the setting,
// the value that was found and the values that are allowed.
func (l *Loader) Variables(lookup func(string) (string, bool)) error {
	var errs []error
	l.flags.VisitAll(func(f *pflag.Flag) {
		variable := "ACCELERATOR_" + strings.ToUpper(strings.ReplaceAll(f.Name, "-", "_"))
		value, ok := lookup(variable)
		if !ok || f.Changed {
			return
		}
		if err := f.Value.Set(value); err != nil {
			errs = append(errs, fmt.Errorf("%s: found %q, %w", variable, value, err))
		}
		f.Changed = true
	})
	return errors.Join(errs...)
}

// Load does the same as [Loader.Variables], and then completes the configuration with the YAML file.
// If only the file is not valid, Config has the settings of flags and variables.
func (l *Loader) Load(lookup func(string) (string, bool)) error {
	if err := l.Variables(lookup); err != nil {
		return err
	}
	files := l.Read()
	config, set, err := l.parse(files)
	if err == nil {
		err = config.readOverrides(files.overrides, config.NodeName, l.vocabulary)
	}
	if err == nil {
		l.Config, l.Files, l.set = config, files, set
	}
	return err
}

// Again returns the configuration that a start would have with these files, with the flags and
// variables of [Loader.Load]. l stays as it is. A running daemon takes over Exclude, Severity
// and Resources; the list has the flags of all other settings that differ from l.Config,
// sorted: those need a restart. Entries for nodes are those of the node of l.Config. Without a
// file l.Config is returned.
//
// On an error, which is one of Load, the Config is empty: go on with the old one.
func (l *Loader) Again(files Files) (Config, []string, error) {
	if !l.Follows() {
		return l.Config, nil, nil
	}
	config, set, err := l.parse(files)
	if err == nil {
		err = config.readOverrides(files.overrides, l.Config.NodeName, l.vocabulary)
	}
	if err != nil {
		return Config{}, nil, err
	}
	var differing []string
	l.flags.VisitAll(func(f *pflag.Flag) { // in the order of their names
		if f.Value.String() != set.Lookup(f.Name).Value.String() {
			differing = append(differing, f.Name)
		}
	})
	return config, differing, nil
}

// parse returns a new configuration, without overrides: defaults, overruled by the file,
// overruled by flags and variables.
func (l *Loader) parse(files Files) (c Config, set *pflag.FlagSet, err error) {
	set = settings(&c)
	c.File, c.Overrides = l.Config.File, l.Config.Overrides
	l.flags.VisitAll(func(f *pflag.Flag) {
		if f.Changed {
			err = errors.Join(err, set.Set(f.Name, f.Value.String()))
		}
	})
	if err == nil {
		err = c.readConfig(files.config, set, l.vocabulary)
	}
	if err == nil {
		err = c.validate()
	}
	return c, set, err
}

// validate checks settings that depend on each other, and completes them.
func (c *Config) validate() error {
	if c.HostDevRoot == "" {
		c.HostDevRoot = c.DevRoot
	}
	// A namespace begins with a letter or a digit; as the vendor of CDI devices it may not
	// begin with a digit.
	if c.CDIDir != "" && c.ResourceNamespace < "a" {
		return fmt.Errorf("resource-namespace: found %q, want a letter first, which CDI requires, or no cdi-dir",
			c.ResourceNamespace)
	}
	if c.ProgrammingHook != "" && c.CDIDir == "" {
		return fmt.Errorf("programming-hook: found %q without cdi-dir, want both: "+
			"the container runtime finds the hook in the CDI spec", c.ProgrammingHook)
	}
	if len(c.ProgrammingHookArgs) > 0 && c.ProgrammingHook == "" {
		return fmt.Errorf("programming-hook-arg: found %q without programming-hook, want both", words(c.ProgrammingHookArgs))
	}
	for _, arg := range c.ProgrammingHookArgs {
		if name, _, _ := strings.Cut(arg, "="); name == "--device" || name == "--afu" {
			return fmt.Errorf("programming-hook-arg: found %q, want flags that hold for all containers, such as --store", arg)
		}
	}
	if c.Events && c.NodeName == "" {
		return errors.New("events: found true without node-name, want both: the name of this node at the API server")
	}
	if n := len(c.KubeletDir); n > peers.MaxDir {
		return fmt.Errorf("kubelet-dir: found %q, a path of %d bytes, want at most %d: sockets in it have no room for more",
			c.KubeletDir, n, peers.MaxDir)
	}
	return nil
}
