// Package config loads the daemon's settings. It defines their defaults, allowed values and sources.
//
// Each setting has a flag (--resync-interval), an environment variable (ACCELERATOR_RESYNC_INTERVAL) and a key in the
// YAML file (resyncInterval). Flags take precedence over variables, variables over the file, and the file over
// defaults. The settings function contains the table of all settings. Values from all three sources are checked in the
// same way.
//
// Three keys exist only in the file, because they aren't single values: exclude lists the devices that the
// administrator has excluded, health.severity sets the severities of reasons, and resources contains the rules for
// resource names. A second file, the overrides, contains only these three keys, either for all nodes or for individual
// ones, and takes precedence over the first file. When the files change, a running daemon applies these keys
// ([Loader.Read], [Loader.Reload]). Most other settings need a restart. The sizes of files, values and errors are
// bounded.
//
// The package owns no state: [New] returns a [Loader]. Load fills in its [Config], which doesn't change after that and
// may be read by several goroutines. The package doesn't read the environment itself: Load takes a function for that.
package config
