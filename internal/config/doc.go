// Package config is what the daemon can be told: the settings, their defaults,
// and where their values come from.
//
// Every setting has a flag (--resync-interval), an environment variable
// (ACCELERATOR_RESYNC_INTERVAL) and a key in the YAML file (resyncInterval).
// Flags win over variables, variables over the file, the file over defaults. One
// table holds them all, and one check per setting serves all three sources.
//
// The package owns no state: [New] returns a [Loader] whose [Config] is filled
// by Load and not changed afterwards. Nothing else in the program looks at the
// environment.
package config
