// Package signature verifies signatures of cosign with public keys, in both forms: signatures next to an image ("simple
// signing"), and sigstore's bundles. It does not connect to registries, opens no files, and owns no state.
//
// The package verifies that the holder of a key has signed the digest of a manifest. It does not verify anything else,
// neither certificates nor transparency logs. The standard library suffices for this.
package signature
