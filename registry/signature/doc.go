// Package signature verifies signatures of cosign with public keys: those beside an image ("simple signing"), and
// sigstore's bundles. It speaks to no registry, opens no file, and owns no state.
//
// It verifies that the holder of a key has signed the digest of a manifest, and nothing else: neither certificates nor
// transparency logs. The standard library suffices for that.
package signature
