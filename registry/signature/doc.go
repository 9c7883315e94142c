// Package signature verifies cosign signatures with public keys, in both formats: "simple signing" signatures stored
// next to an image, and Sigstore bundles. It doesn't connect to registries or open files, and keeps no state.
//
// The package only verifies that the owner of a key has signed the digest of a manifest. It ignores certificates and
// transparency logs, so the standard library is all it needs.
package signature
