// Package config is what the daemon can be told: the settings, their defaults,
// and where their values come from.
//
// Every setting has a flag (--resync-interval), an environment variable
// (ACCELERATOR_RESYNC_INTERVAL) and a key in the YAML file (resyncInterval).
// Flags win over variables, variables over the file, the file over defaults. One
// table holds them all, and one check per setting serves all three sources.
//
// Three keys are the file's alone, because they are no single values: exclude, what
// the administrator has taken out, health.severity, how bad a reason makes a device, and
// resources, what is offered under other names than the mode's. They are also the
// ones that a running daemon takes over when the file is read again
// ([Loader.Again]).
//
// The package owns no state: [New] returns a [Loader] whose [Config] is filled
// by Load and not changed afterwards. It may be read by several goroutines then.
// Nothing else in the program looks at the environment.
package config
