// Package artifact defines how OCI registries store bitstreams: the manifest's format, and how the manifest describes
// its bitstream. The package doesn't connect to registries or open files, and keeps no state.
//
// Manifests come from registries, which may be hostile. So [Parse] accepts only one format, and [Description.Check]
// compares the manifest with the bitstream itself. The IDs in a parsed manifest are hex digits, so they are safe to use
// in paths.
package artifact
