// Package config loads the daemon's settings. It defines their defaults, allowed values and sources.
//
// Each setting has a flag (--resync-interval), an environment variable (ACCELERATOR_RESYNC_INTERVAL) and a key in the
// YAML file (resyncInterval). Flags take precedence over variables, variables over the file, and the file over
// defaults. The settings function contains the table of all settings. Values are checked the same way no matter where
// they come from.
//
// Three keys can be set only in the file, because they aren't single values: exclude lists the devices that the
// administrator has excluded, health.severity sets the severities of reasons, and resources contains the rules for
// resource names. A second file, the overrides, can contain only these three keys, for all nodes or for individual
// nodes, and takes precedence over the first file. When the files change, a running daemon applies these keys
// ([Loader.Read], [Loader.Reload]); most other settings need a restart. The sizes of files, values and errors are
// limited.
//
// The package owns no state: [New] returns a [Loader], and Load fills in the loader's [Config]. After that, Config
// doesn't change and is safe for concurrent use. The package doesn't read the environment itself; Load takes a function
// for that.
package config
