// Package artifact describes bitstreams in OCI registries: how a manifest looks, and what it says about its
// bitstream. It speaks to no registry, opens no file, and owns no state.
//
// A manifest comes from a registry, which may be hostile. [Parse] accepts one form only, and [Description.Check]
// compares what the manifest announces with what the bitstream contains. No text from a manifest becomes part of a path.
package artifact
