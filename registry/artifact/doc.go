// Package artifact defines how bitstreams are stored in OCI registries: the form of a manifest, and how it describes
// its bitstream. The package does not connect to registries, opens no files, and owns no state.
//
// A manifest comes from a registry, which may be hostile. [Parse] accepts only one form, and [Description.Check]
// compares the manifest with the bitstream's content. No text from a manifest becomes part of a path.
package artifact
