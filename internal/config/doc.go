// Package config has the daemon's settings: their defaults, their allowed values, and the sources of
// their values.
//
// Every setting has a flag (--resync-interval), an environment variable
// (ACCELERATOR_RESYNC_INTERVAL) and a key in the YAML file (resyncInterval). Flags win over
// variables, variables over the file, the file over defaults. One table has them all
// (settings), and one check for each setting serves the three sources.
//
// Three keys are in the file only, because they are not single values: exclude, the devices
// that the administrator has taken out; health.severity, how bad a reason makes a device; and
// resources, rules for names of resources. A second file, the overrides, has these three only,
// for all nodes and for single ones, and comes above the first one. A running daemon takes them
// over when the files have changed ([Loader.Read], [Loader.Again]); every other setting needs a
// restart. The sizes of files, values and errors are bounded.
//
// The package owns no state: [New] returns a [Loader] whose [Config] is filled by Load and not
// changed afterwards. Then several goroutines may read it. Nothing else in the program reads
// the environment.
package config
