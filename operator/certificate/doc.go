// Package certificate issues a webhook's serving certificates, and writes their CA to the webhook's configuration.
//
// # State
//
// The CA is stored in a Secret. Each replica runs the authority from cert-manager's library, which creates the Secret
// if it doesn't exist. The authority generates a new CA after two thirds of a year, or if the Secret doesn't contain a
// CA and its private key. It overwrites any other certificate in the Secret, so other programs must not use it. It
// doesn't touch other keys in the Secret's data.
//
// Each replica has a [Source], which issues a certificate that is valid for a week. The certificate is kept in memory,
// so that the replica doesn't have to wait for the kubelet to mount a file. The leader has an [Injector], which writes
// the CA to the webhook configuration.
//
// # When the CA changes
//
// Replicas, the injector and the API servers receive a new CA at different times and in any order. Two overlaps keep
// handshakes from failing:
//
//   - For a minute ([leafOverlap]), a replica continues to serve its previous certificate. By the end of that minute,
//     the API servers trust the new CA.
//   - For ten minutes ([caOverlap]), the API servers continue to trust the previous CAs. By the end of that time, no
//     replica serves a certificate signed by a previous CA.
//
// The CA is injected only while there is a leader. A change of leader takes a few seconds. If there is no leader for a
// minute after a new CA has been generated, the webhook fails until there is one.
//
// # What may block
//
// [Source.Start] and [Injector.Reconcile] wait for the API server. The other functions don't block.
package certificate
