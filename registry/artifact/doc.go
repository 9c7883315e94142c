// Package artifact defines how bitstreams are stored in OCI registries: the format of a manifest, and how it describes
// its bitstream. The package doesn't connect to registries or open files, and keeps no state.
//
// Manifests come from registries, which may be hostile. So [Parse] accepts only one format, and [Description.Check]
// compares the manifest with the content of the bitstream. The IDs in a parsed manifest are hex digits, so they are safe
// in paths.
package artifact
