package config

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/pflag"

	"b-com.com/accelerator-device-plugin/kubelet/peers"
)

// Loader fills in a [Config] from flags, variables and files.
type Loader struct {
	Config     Config
	Files      Files // the files that Config was read from
	vocabulary Vocabulary
	flags      *pflag.FlagSet // flags of Config; Changed means set by a flag or a variable
	set        *pflag.FlagSet // flags of the last Config that was loaded; Changed means set by any source
}

// Vocabulary lists the names that are valid in a file.
type Vocabulary struct {
	Families []string // all families, even those that are disabled
	Rows     []string // rows of the families' health tables whose severities can be overridden, NAME or NAME=VALUE
}

// New returns a loader with the default configuration.
func New(v Vocabulary) *Loader {
	l := &Loader{vocabulary: v}
	l.flags = settings(&l.Config, v.Families)
	l.set = l.flags
	return l
}

// AddFlags adds a flag for each setting to fs.
func (l *Loader) AddFlags(fs *pflag.FlagSet) { fs.AddFlagSet(l.flags) }

// IsSet reports whether a flag, a variable or the file has set a setting. name is the name of the setting's flag.
func (l *Loader) IsSet(name string) bool { return l.set.Changed(name) }

// Variables uses environment variables to set the settings that no flag has set. It must be called after the flags have
// been parsed. lookup is os.LookupEnv. Errors contain the variable's name, the value that was found and the allowed
// values.
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

// Load calls [Loader.Variables] and then applies the YAML files. If the only error is in a file, Config holds the
// settings from flags and variables.
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

// Reload returns the configuration that the daemon would have after a restart with these files and with the flags and
// variables that were passed to [Loader.Load]. It doesn't modify l. A running daemon can apply Exclude, Severity,
// Resources, Sensors and SensorInterval. All other changes need a restart; the returned list contains the flags of
// these settings, sorted. Overrides for individual nodes only apply if they are for l.Config's node. If there are no
// files, Reload returns l.Config.
//
// Reload returns the same errors as Load. If there is an error, the returned Config is empty and the caller should keep
// its own.
func (l *Loader) Reload(files Files) (Config, []string, error) {
	if !l.HasFiles() {
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
	l.flags.VisitAll(func(f *pflag.Flag) { // sorted by name
		live := f.Name == "sensors" || f.Name == "sensor-interval"
		if !live && f.Value.String() != set.Lookup(f.Name).Value.String() {
			differing = append(differing, f.Name)
		}
	})
	return config, differing, nil
}

// parse returns a new configuration made from the defaults, the configuration file, and l's flags and variables, but
// not the overrides.
func (l *Loader) parse(files Files) (c Config, set *pflag.FlagSet, err error) {
	set = settings(&c, l.vocabulary.Families)
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

// validate checks settings that depend on each other, and sets those that are derived from others.
func (c *Config) validate() error {
	if c.HostDevRoot == "" {
		c.HostDevRoot = c.DevRoot
	}
	if c.HostSysfsRoot == "" {
		c.HostSysfsRoot = c.SysfsRoot
	}
	// The resource namespace is also the CDI vendor. A namespace may begin with a digit, but a CDI vendor may not.
	if c.CDIDir != "" && c.ResourceNamespace < "a" {
		return fmt.Errorf("resource-namespace: found %q, want a letter first, as CDI requires, or no cdi-dir",
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
			return fmt.Errorf("programming-hook-arg: found %q, want flags that are the same for all containers, such as --store", arg)
		}
	}
	if c.Events && c.NodeName == "" {
		return errors.New("events: found true without node-name, want both: node-name is the name of this node in the API server")
	}
	if c.NodeConditionType != "" && c.NodeName == "" {
		return fmt.Errorf("node-condition-type: found %q without node-name, want both: node-name is the name of this node in the API server", c.NodeConditionType)
	}
	if n := len(c.KubeletDir); n > peers.MaxDir {
		return fmt.Errorf("kubelet-dir: found %q, a path of %d bytes, want at most %d: the paths of sockets in it are limited",
			c.KubeletDir, n, peers.MaxDir)
	}
	return nil
}
