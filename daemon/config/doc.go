// Package config loads the daemon's settings. It defines their defaults, their allowed values and their sources.
//
// Each setting has a flag (--resync-interval), an environment variable (ACCELERATOR_RESYNC_INTERVAL) and a key in the
// YAML file (resyncInterval). Flags take precedence over variables, variables over the file, and the file over
// defaults. The function settings contains the table of all settings. The same check applies to all three sources.
//
// Three keys exist only in the file, because they are not single values: exclude lists the devices that the
// administrator has excluded, health.severity sets the severities of reasons, and resources contains the rules for
// names of resources. A second file, the overrides, contains only these three keys, for all nodes or for individual
// ones, and takes precedence over the first file. When the files have changed, a running daemon applies these keys
// ([Loader.Read], [Loader.Again]). Most other settings need a restart. The sizes of files, values and errors are
// bounded.
//
// The package owns no state: [New] returns a [Loader]. Load fills its [Config], which does not change
// afterwards and may be read by several goroutines. The package does not read the environment itself:
// Load gets a function for that.
package config
