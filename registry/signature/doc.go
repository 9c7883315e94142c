// Package signature verifies cosign signatures with public keys, in both formats: "simple signing" signatures stored
// next to an image, and Sigstore bundles. It doesn't connect to registries or open files, and keeps no state.
//
// All that the package verifies is that a key's owner has signed the digest of a manifest. It ignores certificates and
// transparency logs, so it needs nothing but the standard library.
package signature
