// Package certificate makes the serving certificates of a webhook, and writes their CA to the webhook's configuration.
//
// # State
//
// The CA is stored in a Secret. Each replica runs the authority of cert-manager's library, which creates the Secret if
// it is missing. The authority makes a new CA after two thirds of a year, or if the Secret does not contain a CA with
// its key. It overwrites any other certificate in the Secret, so other programs must not use the Secret. Other keys of
// the Secret stay.
//
// Each replica has a [Source]. It signs a certificate that is valid for a week and keeps it in memory, so that the
// replica does not have to wait for the kubelet to mount a file. The leader has an [Injector], which writes the CA to
// the webhooks' configuration.
//
// # Change of the CA
//
// Replicas, the injector and the API servers receive a new CA at different times, in any order. Two overlaps prevent
// failed handshakes:
//
//   - A replica continues to serve its previous certificate for a minute, [leafOverlap]. By then the API servers trust
//     the new CA.
//   - API servers trust the previous CAs for ten minutes, [caOverlap]. By then no replica serves a certificate that a
//     previous CA has signed.
//
// The CA is injected only while there is a leader. A change of the leader takes seconds. If there is no leader for a
// minute after a new CA was made, the webhook fails until there is one.
//
// # What may block
//
// [Source.Start] and [Injector.Reconcile] wait for the API server. No other function blocks.
package certificate
